/* A PJRT plugin without a device: it "compiles" a program by copying it, and can read that back. FAKE_PLUGIN names what
 * it cannot do: serialize, load, compile. FAKE_COMPILE_MS: how long it takes to compile a program. What the driver
 * (pjrt_driver.py) reads of an executable is its text. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { size_t size; void *extension; int major, minor; } Version;
static struct { size_t size; void *extension; Version version; void *function[60]; } api;

typedef struct { size_t size; void *extension; void *object; } One;
typedef struct { size_t size; void *extension; void *from; void *to; } Two;
typedef struct { size_t size; void *extension; void *client; const char *text; size_t length; } Text;
typedef struct { size_t size; void *extension; void *client; void **items; size_t count; } List;
typedef struct { size_t size; void *extension; char *code; size_t code_size; const char *format; size_t format_size; } Program;
typedef struct { size_t size; void *extension; void *client; Program *program; const char *options; size_t options_size; char *executable; } Compile;
typedef struct { size_t size; void *extension; char *executable; const char *bytes; size_t length; void *serialized; void (*deleter)(void *); } Serialize;
typedef struct { size_t size; void *extension; void *client; const char *bytes; size_t length; char *loaded; } Load;

int fake_compilations, fake_alive, fake_errors;

static int cannot(const char *what) {
  const char *said = getenv("FAKE_PLUGIN");
  return said && strstr(said, what);
}

static void *error(void) { fake_errors++; return malloc(1); }
static void *error_destroy(One *a) { fake_errors--; free(a->object); return NULL; }

static char *executable(const char *how, const char *code, size_t size) {
  char *made = calloc(1, strlen(how) + size + 1);
  fake_alive++;
  memcpy(made, how, strlen(how));
  memcpy(made + strlen(how), code, size);
  return made;
}

/* A plugin of a later API refuses structs that are shorter than its own (FAKE_API, the minor version). */
static int newer(void) { return getenv("FAKE_API") ? atoi(getenv("FAKE_API")) : 70; }
static int shorter(size_t size, size_t own) { return newer() > 75 && size < own + 64; }

typedef struct {
  size_t size; void *extension; void *loaded; One *options; void *arguments; size_t devices, count; void *outputs; void **complete;
  void *device;
} Execute;

/* An event: what waits for it is called by fake_end, which ends the oldest execution that has not ended. */
typedef struct { void (*ready)(void *error, void *of); void *of; } Event;
typedef struct { size_t size; void *extension; Event *event; void (*ready)(void *, void *); void *of; } Ready;
static Event *running[64];
static int began, ended;
int fake_events;

static void *execute(Execute *a) {
  if (shorter(a->size, sizeof *a) || shorter(a->options->size, sizeof *a->options) || ((char *)a)[sizeof *a] || cannot("execute")) return error();
  for (size_t i = 0; a->complete && i < a->devices; i++) {
    a->complete[i] = running[began++ % 64] = calloc(1, sizeof(Event));
    fake_events++;
  }
  return NULL;
}

static void *on_ready(Ready *a) { a->event->ready = a->ready, a->event->of = a->of; return NULL; }
static void *event_destroy(One *a) { fake_events--; free(a->object); return NULL; }
void fake_end(void) { Event *event = running[ended++ % 64]; if (event->ready) event->ready(NULL, event->of); }

static void *compile(Compile *a) {
  if (shorter(a->size, sizeof *a)) return error();
  const char *lasts = getenv("FAKE_COMPILE_MS");
  fake_compilations++;
  if (lasts) usleep(1000 * atoi(lasts));
  if (cannot("compile")) return error();
  a->executable = executable("compiled ", a->program->code, a->program->code_size);
  return NULL;
}

static void *program_name(Text *a) { if (cannot("wait")) fake_end(); a->text = a->client, a->length = strlen(a->text); return NULL; }
static void *get_executable(Two *a) { a->to = executable("", a->from, strlen(a->from)); return NULL; }
static void *destroy(One *a) { fake_alive--; free(a->object); return NULL; }

static void *serialize(Serialize *a) {
  if (cannot("serialize")) return error();
  a->serialized = strdup(a->executable + strlen("compiled "));
  a->bytes = a->serialized, a->length = strlen(a->serialized), a->deleter = free;
  return NULL;
}

static void *load(Load *a) {
  if (cannot("load") || shorter(a->size, sizeof *a)) return error();
  a->loaded = executable("loaded ", a->bytes, a->length);
  return NULL;
}

static void *name(Text *a) { a->text = "cuda", a->length = 4; return NULL; }
static void *version(Text *a) { a->text = getenv("FAKE_VERSION") ? getenv("FAKE_VERSION") : "cuda 12080"; a->length = strlen(a->text); return NULL; }
static void *kind(Text *a) { a->text = getenv("FAKE_KIND") ? getenv("FAKE_KIND") : "NVIDIA T4"; a->length = strlen(a->text); return NULL; }
static void *devices(List *a) { static void *all[1] = {&api}; a->items = all, a->count = 1; return NULL; }
static void *description(Two *a) { a->to = a->from; return NULL; }

const void *GetPjrtApi(void) {
  api.size = cannot("grow") ? offsetof(__typeof__(api), function) + 12 * sizeof(void *) : sizeof api;
  api.version.size = sizeof api.version, api.version.minor = newer();
  api.function[0] = error_destroy, api.function[12] = name, api.function[14] = version, api.function[15] = devices;
  api.function[20] = compile, api.function[26] = kind, api.function[29] = description, api.function[40] = destroy;
  api.function[5] = event_destroy, api.function[9] = on_ready, api.function[41] = program_name;
  api.function[49] = serialize, api.function[50] = destroy, api.function[51] = get_executable, api.function[56] = load, api.function[55] = execute;
  return &api;
}
