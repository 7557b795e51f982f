/* A PJRT plugin in front of another one. It forwards everything, sees when each program has really ended (see
 * "executions" below), and changes three things:
 *
 * - the size of argument structs: torch_xla 2.9.0 knows API 0.75, and a newer plugin refuses its shorter structs ("Unexpected
 *   PJRT_ExecuteOptions size: expected 112, got 80"). Every call gets a copy that is padded with zeros, which mean "not given",
 * - the platform's name (torch_xla 2.9 aborts on a platform called "cuda" and accepts any unknown name), and
 * - what PJRT_Client_Compile costs: programs compiled before are read back from a directory.
 *
 * torch_xla's own persistent cache cannot read back through any plugin: it calls DeserializeExecutable, which its C API
 * client does not have (pytorch/xla #9094, open in 2.9). This file uses PJRT_Executable_Serialize and
 * DeserializeAndLoad, as JAX's cache does.
 *
 * Layouts are the stable heads of xla/pjrt/c/pjrt_c_api.h, API 0.33 to 0.116: PJRT_Api and argument structs only grow at
 * their end. Environment, read once:
 *   SAGELET_PJRT_PLUGIN   the plugin behind this one
 *   SAGELET_PJRT_LABEL    its name and version, for messages
 *   SAGELET_PJRT_OLDEST   the oldest minor version of the API that torch_xla can use
 *   SAGELET_PJRT_NAME     the platform's name; unset: the plugin's own
 *   SAGELET_COMPILE_CACHE directory of entries; unset: no cache
 *   SAGELET_COMPILE_KEY   what else an entry depends on (versions of torch_xla and of the plugin, image)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct { size_t struct_size; void *extension; int major, minor; } Version;
typedef struct { size_t struct_size; void *extension; Version version; void *function[]; } Api;
typedef struct { size_t struct_size; void *extension; void *error; } ErrorArgs;
typedef struct { size_t struct_size; void *extension; void *client; const char *text; size_t size; } TextArgs;
typedef struct { size_t struct_size; void *extension; void *client; void **items; size_t count; } ListArgs;
typedef struct { size_t struct_size; void *extension; void *from; void *to; } ObjectArgs;
typedef struct { size_t struct_size; void *extension; char *code; size_t code_size; const char *format; size_t format_size; } Program;
typedef struct {
  size_t struct_size; void *extension; void *client; const Program *program;
  const char *options; size_t options_size; void *executable;
} CompileArgs;
typedef struct {
  size_t struct_size; void *extension; const void *executable; const char *bytes; size_t size;
  void *serialized; void (*deleter)(void *);
} SerializeArgs;
typedef struct { size_t struct_size; void *extension; void *client; const char *bytes; size_t size; void *loaded; } LoadArgs;
typedef struct {
  size_t struct_size; void *extension; void *executable, *options; void *arguments; size_t devices, count; void *outputs;
  void **complete; void *device;
} ExecuteArgs;
typedef struct { size_t struct_size; void *extension; void *event; void (*ready)(void *error, void *of); void *of; } ReadyArgs;
typedef struct { size_t struct_size; void *extension; void *object; } DestroyArgs;

enum {
  ERROR_DESTROY = 0, EVENT_DESTROY = 5, EVENT_ON_READY = 9, CLIENT_CREATE = 10, PLATFORM_NAME = 12, PLATFORM_VERSION = 14, CLIENT_DEVICES = 15,
  CLIENT_COMPILE = 20, DESCRIPTION_KIND = 26, DEVICE_DESCRIPTION = 29, EXECUTABLE_DESTROY = 40,
  EXECUTABLE_NAME = 41, EXECUTABLE_SERIALIZE = 49, LOADED_DESTROY = 50, GET_EXECUTABLE = 51, LOADED_EXECUTE = 55,
  DESERIALIZE_AND_LOAD = 56, LAST = 57
};
/* What torch_xla 2.9.0 knows: the minor version and its functions. */
enum { KNOWN_MINOR = 75, KNOWN = 115 };
/* The first version with all functions that this file calls, at their places. */
enum { OLDEST_MINOR = 33 };
/* Bytes of a padded struct: more than any argument struct has. */
enum { ROOM = 1024 };

typedef void *(*Call)(void *);

/* Read by sagelet_runtime through ctypes. */
typedef struct { int64_t hits, misses, written, failures; int32_t enabled; char reason[256]; int32_t major, minor; } Status;

static Api *wrapped;
static Call real[KNOWN];
static Status status;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static const char *directory, *platform;
static int trusted; /* an entry was read back in this process */

/* --- SHA-256 (FIPS 180-4) ------------------------------------------------------------------------------------ */

typedef struct { uint32_t h[8]; uint64_t length; unsigned char block[64]; } Sha;

static const uint32_t K[64] = {
  0x428a2f98,0x71374491,0xb5c0fbcf,0xe9b5dba5,0x3956c25b,0x59f111f1,0x923f82a4,0xab1c5ed5,0xd807aa98,0x12835b01,0x243185be,
  0x550c7dc3,0x72be5d74,0x80deb1fe,0x9bdc06a7,0xc19bf174,0xe49b69c1,0xefbe4786,0x0fc19dc6,0x240ca1cc,0x2de92c6f,0x4a7484aa,
  0x5cb0a9dc,0x76f988da,0x983e5152,0xa831c66d,0xb00327c8,0xbf597fc7,0xc6e00bf3,0xd5a79147,0x06ca6351,0x14292967,0x27b70a85,
  0x2e1b2138,0x4d2c6dfc,0x53380d13,0x650a7354,0x766a0abb,0x81c2c92e,0x92722c85,0xa2bfe8a1,0xa81a664b,0xc24b8b70,0xc76c51a3,
  0xd192e819,0xd6990624,0xf40e3585,0x106aa070,0x19a4c116,0x1e376c08,0x2748774c,0x34b0bcb5,0x391c0cb3,0x4ed8aa4a,0x5b9cca4f,
  0x682e6ff3,0x748f82ee,0x78a5636f,0x84c87814,0x8cc70208,0x90befffa,0xa4506ceb,0xbef9a3f7,0xc67178f2 };

static uint32_t turned(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

static void sha_block(Sha *s) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++) {
    const unsigned char *p = s->block + 4 * i;
    w[i] = (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
  }
  for (int i = 16; i < 64; i++) {
    uint32_t a = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ (w[i - 15] >> 3);
    uint32_t b = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  memcpy(v, s->h, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t a = v[7] + (turned(v[4], 6) ^ turned(v[4], 11) ^ turned(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) + K[i] + w[i];
    uint32_t b = (turned(v[0], 2) ^ turned(v[0], 13) ^ turned(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += a;
    v[0] = a + b;
  }
  for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

static void sha_begin(Sha *s) {
  static const uint32_t first[8] = {0x6a09e667,0xbb67ae85,0x3c6ef372,0xa54ff53a,0x510e527f,0x9b05688c,0x1f83d9ab,0x5be0cd19};
  memcpy(s->h, first, sizeof first);
  s->length = 0;
}

static void sha_add(Sha *s, const void *data, size_t size) {
  const unsigned char *p = data;
  while (size) {
    size_t at = s->length % 64, n = 64 - at < size ? 64 - at : size;
    memcpy(s->block + at, p, n);
    s->length += n, p += n, size -= n;
    if (s->length % 64 == 0) sha_block(s);
  }
}

static void sha_end(Sha *s, unsigned char out[32]) {
  uint64_t bits = s->length * 8;
  unsigned char mark = 0x80, zero = 0, size[8];
  sha_add(s, &mark, 1);
  while (s->length % 64 != 56) sha_add(s, &zero, 1);
  for (int i = 0; i < 8; i++) size[i] = bits >> (56 - 8 * i);
  sha_add(s, size, 8);
  for (int i = 0; i < 32; i++) out[i] = s->h[i / 4] >> (24 - 8 * (i % 4));
}

/* Hashes each part with its length, so that different lists of parts have different hashes. */
static void sha_part(Sha *s, const void *data, size_t size) {
  uint64_t length = data ? size : 0;
  sha_add(s, &length, sizeof length);
  if (length) sha_add(s, data, length);
}

/* --- files: "SAGELET1", SHA-256 of the rest, the serialized executable ---------------------------------------- */

static const char MAGIC[8] = "SAGELET1";
enum { HEAD = 40 };

static void give_up(const char *reason) {
  pthread_mutex_lock(&guard);
  status.enabled = 0;
  snprintf(status.reason, sizeof status.reason, "%s", reason);
  pthread_mutex_unlock(&guard);
}

static void count(int64_t *what) {
  pthread_mutex_lock(&guard);
  ++*what;
  pthread_mutex_unlock(&guard);
}

static int read_whole(int file, char *to, size_t size) {
  while (size) {
    ssize_t n = read(file, to, size);
    if (n <= 0) return 0;
    to += n, size -= n;
  }
  return 1;
}

/* Tells the engine, which drops its own copy of what cannot be loaded: else each later job would compile this program. */
static void set_aside(const char *path) {
  char aside[4200];
  snprintf(aside, sizeof aside, "%s.broken", path);
  if (rename(path, aside)) unlink(path);
}

/* Returns the content of an entry, which the caller frees, or NULL if there is no entry or it is not whole. */
static char *read_entry(const char *path, size_t *size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NULL;
  struct stat facts;
  char *data = NULL;
  if (!fstat(file, &facts) && S_ISREG(facts.st_mode) && (data = malloc(facts.st_size + 1))) {
    unsigned char found[32];
    Sha s;
    int whole = facts.st_size > HEAD && read_whole(file, data, facts.st_size) && !memcmp(data, MAGIC, sizeof MAGIC);
    if (whole) {
      sha_begin(&s), sha_add(&s, data + HEAD, facts.st_size - HEAD), sha_end(&s, found);
      whole = !memcmp(data + sizeof MAGIC, found, sizeof found);
    }
    if (!whole) {
      free(data), data = NULL;
      set_aside(path);
    }
    *size = facts.st_size;
  }
  close(file);
  return data;
}

static int write_whole(int file, const char *from, size_t size) {
  while (size) {
    ssize_t n = write(file, from, size);
    if (n <= 0) return 0;
    from += n, size -= n;
  }
  return 1;
}

/* Writes under another name and renames, so that other workers of the host see all of it or nothing. */
static int write_entry(const char *path, const char *bytes, size_t size) {
  char draft[4200];
  snprintf(draft, sizeof draft, "%s.%d.draft", path, (int)gettid());
  int file = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return 0;
  unsigned char sum[32];
  Sha s;
  sha_begin(&s), sha_add(&s, bytes, size), sha_end(&s, sum);
  int good = write_whole(file, MAGIC, sizeof MAGIC) && write_whole(file, (char *)sum, sizeof sum) && write_whole(file, bytes, size);
  good = !close(file) && good && !rename(draft, path);
  if (!good) unlink(draft);
  return good;
}

/* --- calls of the plugin behind -------------------------------------------------------------------------------- */

/* Copies a struct into `room` and fills the rest with zeros. Returns `given` itself if it is larger than the room. */
static void *padded(void *given, char *room) {
  size_t size = *(size_t *)given;
  if (size > ROOM) return given;
  memcpy(room, given, size);
  memset(room + size, 0, ROOM - size);
  *(size_t *)room = ROOM;
  return room;
}

/* Calls the plugin with padded structs, and copies back what it answers. */
static void *forward(int which, void *given) {
  _Alignas(16) char room[ROOM], inner[ROOM];
  size_t size = *(size_t *)given;
  void *args = padded(given, room);
  if (which == LOADED_EXECUTE && ((ExecuteArgs *)args)->options)
    ((ExecuteArgs *)args)->options = padded(((ExecuteArgs *)args)->options, inner);
  void *options = which == LOADED_EXECUTE ? ((ExecuteArgs *)given)->options : NULL;
  void *error = real[which](args);
  if (args != given) memcpy((char *)given + sizeof size, (char *)args + sizeof size, size - sizeof size);
  if (which == LOADED_EXECUTE) ((ExecuteArgs *)given)->options = options;
  return error;
}

/* One function for each of the plugin's: torch_xla's call does not say which function it is of. */
#define EACH(X) TEN(X, ) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) TEN(X, 6) TEN(X, 7) TEN(X, 8) TEN(X, 9) TEN(X, 10) \
  X(110) X(111) X(112) X(113) X(114)
#define TEN(X, d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7) X(d##8) X(d##9)
#define DEFINE(n) static void *forward##n(void *args) { return forward(n, args); }
#define NAME(n) forward##n,
EACH(DEFINE)
static const Call forwards[KNOWN] = { EACH(NAME) };

static int failed(void *error) {
  if (!error) return 0;
  ErrorArgs args = {sizeof args, NULL, error};
  forward(ERROR_DESTROY, &args);
  return 1;
}

static void destroy(int which, void *object) {
  DestroyArgs args = {sizeof args, NULL, object};
  failed(forward(which, &args));
}

static void add_text(Sha *s, int which, void *object) {
  TextArgs args = {sizeof args, NULL, object, NULL, 0};
  if (!failed(forward(which, &args))) sha_part(s, args.text, args.size);
}

static void add_devices(Sha *s, void *client) {
  ListArgs list = {sizeof list, NULL, client, NULL, 0};
  if (failed(forward(CLIENT_DEVICES, &list))) return;
  sha_part(s, &list.count, sizeof list.count);
  for (size_t i = 0; i < list.count; i++) {
    ObjectArgs one = {sizeof one, NULL, list.items[i], NULL};
    if (!failed(forward(DEVICE_DESCRIPTION, &one))) add_text(s, DESCRIPTION_KIND, one.to);
  }
}

static void name_entry(CompileArgs *args, char *path, size_t size) {
  /* PJRT_NPROC: XLA's CPU client makes its programs for so many threads, and each worker has its own share of them. */
  static const char *variables[] = {"SAGELET_COMPILE_KEY", "XLA_FLAGS", "TF_XLA_FLAGS", "NVIDIA_TF32_OVERRIDE", "PJRT_NPROC"};
  unsigned char sum[32];
  Sha s;
  sha_begin(&s);
  sha_part(&s, &status.minor, sizeof status.minor);
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *value = getenv(variables[i]);
    sha_part(&s, value, value ? strlen(value) : 0);
  }
  add_text(&s, PLATFORM_NAME, args->client);
  add_text(&s, PLATFORM_VERSION, args->client);
  add_devices(&s, args->client);
  sha_part(&s, args->program->format, args->program->format_size);
  sha_part(&s, args->program->code, args->program->code_size);
  sha_part(&s, args->options, args->options_size);
  sha_end(&s, sum);
  int at = snprintf(path, size, "%s/", directory);
  for (int i = 0; i < 32; i++) at += snprintf(path + at, size - at, "%02x", sum[i]);
}

static void *loaded(void *client, const char *bytes, size_t size) {
  LoadArgs args = {sizeof args, NULL, client, bytes, size, NULL};
  return failed(forward(DESERIALIZE_AND_LOAD, &args)) ? NULL : args.loaded;
}

/* Serializes what was just compiled. The first entry of a process is read back before any entry is trusted. */
static void keep(CompileArgs *args, const char *path) {
  ObjectArgs inner = {sizeof inner, NULL, args->executable, NULL};
  if (failed(forward(GET_EXECUTABLE, &inner))) return count(&status.failures);
  SerializeArgs out = {sizeof out, NULL, inner.to, NULL, 0, NULL, NULL};
  if (failed(forward(EXECUTABLE_SERIALIZE, &out))) {
    give_up("the plugin cannot serialize executables");
  } else {
    if (!trusted) {
      void *again = loaded(args->client, out.bytes, out.size);
      if (again) trusted = 1, destroy(LOADED_DESTROY, again);
      else give_up("the plugin cannot read back what it serialized");
    }
    if (trusted) count(write_entry(path, out.bytes, out.size) ? &status.written : &status.failures);
    if (out.deleter) out.deleter(out.serialized);
  }
  destroy(EXECUTABLE_DESTROY, inner.to);
}

static void *compile(CompileArgs *args) {
  char path[4160];
  size_t size = 0;
  if (!status.enabled) return forward(CLIENT_COMPILE, args);
  name_entry(args, path, sizeof path);
  char *data = read_entry(path, &size);
  if (data) {
    args->executable = loaded(args->client, data + HEAD, size - HEAD);
    free(data);
    if (args->executable) {
      trusted = 1;
      count(&status.hits);
      utimensat(AT_FDCWD, path, NULL, 0); /* tells the engine that it was used */
      return NULL;
    }
    count(&status.failures);
    set_aside(path);
  }
  count(&status.misses);
  void *error = forward(CLIENT_COMPILE, args);
  if (!error) keep(args, path);
  return error;
}

static void *platform_name(TextArgs *args) {
  void *error = forward(PLATFORM_NAME, args);
  if (!error) args->text = platform, args->size = strlen(platform);
  return error;
}

/* --- executions --------------------------------------------------------------------------------------------------
 *
 * A device runs programs beside the script, so only PJRT's events say when a program has ended. Executions are numbered
 * from 0 as they are dispatched. Execution n is done when all up to n have ended. Times are of CLOCK_MONOTONIC, in ns.
 */

/* Executions whose ends are kept, devices of an execution that are watched, and programs that are told apart, at most. */
enum { KEPT = 4096, MOST_DEVICES = 64, MOST_PROGRAMS = 64 };

/* Read by sagelet_runtime through ctypes. `lost`: executions that could not be watched. `arguments`: of all others. */
typedef struct { int64_t dispatched, done, busy_ns, idle_ns, deepest, lost, arguments; } Device;
typedef struct { char name[64]; int64_t count, busy_ns; } ProgramTime;
typedef struct { int64_t dispatched_ns, ended_ns; int32_t left, program; } Execution;
/* One of an execution's devices. `all`: the first of them, by which the last that ends frees all of them. */
typedef struct Watched { int64_t number; void *event; struct Watched *all; } Watched;

/* No call of the plugin is made with this lock: `ended` needs it, which the plugin calls with locks of its own. */
static pthread_mutex_t device_guard = PTHREAD_MUTEX_INITIALIZER;
static Device device;
static Execution executions[KEPT];
static ProgramTime programs[MOST_PROGRAMS]; /* the last one has what the others leave */
static void *program_of[MOST_PROGRAMS];
static int programs_seen;
/* When the device last had nothing to do, or began to have: it has while `open_` executions have not ended. */
static int64_t open_, turned_ns, done_ns;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Called with the lock. */
static void advance(void) {
  while (device.done < device.dispatched) {
    Execution *next = &executions[device.done % KEPT];
    if (next->left) return;
    int64_t began = next->dispatched_ns > done_ns ? next->dispatched_ns : done_ns;
    if (next->ended_ns < done_ns) next->ended_ns = done_ns;
    done_ns = next->ended_ns;
    programs[next->program].count++;
    if (done_ns > began) programs[next->program].busy_ns += done_ns - began;
    device.done++;
  }
}

/* Called with the lock, when a program has ended on one of its devices. True if it was the last. */
static int end_one(int64_t number, int64_t now) {
  Execution *ended = &executions[number % KEPT];
  if (--ended->left) return 0;
  ended->ended_ns = now;
  if (!--open_) device.busy_ns += now - turned_ns, turned_ns = now;
  advance();
  return 1;
}

static void ended(void *error, void *of) {
  int64_t now = now_ns();
  Watched *watched = of, *all = watched->all;
  void *event = watched->event;
  failed(error); /* torch_xla reads the error from its own event */
  pthread_mutex_lock(&device_guard);
  int last = end_one(watched->number, now);
  pthread_mutex_unlock(&device_guard);
  if (event) destroy(EVENT_DESTROY, event);
  if (last) free(all);
}

static void name_program(void *executable, char *name, size_t size) {
  ObjectArgs inner = {sizeof inner, NULL, executable, NULL};
  if (failed(forward(GET_EXECUTABLE, &inner))) return;
  TextArgs text = {sizeof text, NULL, inner.to, NULL, 0};
  if (!failed(forward(EXECUTABLE_NAME, &text))) snprintf(name, size, "%.*s", (int)text.size, text.text);
  destroy(EXECUTABLE_DESTROY, inner.to);
}

/* Called with the lock. The lookup begins with the newest program: a step runs the same few. Returns that of the others
 * if there is none. */
static int program_number(void *executable) {
  for (int i = programs_seen - 1; i >= 0; i--)
    if (program_of[i] == executable) return i;
  return MOST_PROGRAMS - 1;
}

/* Called with the lock. */
static int is_new(void *executable) {
  return programs_seen < MOST_PROGRAMS - 1 && program_number(executable) == MOST_PROGRAMS - 1;
}

/* Gives a program its number and its name, unless there are too many. Another thread may do so meanwhile. */
static void meet(void *executable) {
  char name[sizeof programs[0].name] = "";
  pthread_mutex_lock(&device_guard);
  int unknown = is_new(executable);
  pthread_mutex_unlock(&device_guard);
  if (!unknown) return;
  name_program(executable, name, sizeof name);
  pthread_mutex_lock(&device_guard);
  if (is_new(executable)) {
    memcpy(programs[programs_seen].name, name, sizeof name);
    program_of[programs_seen++] = executable;
  }
  pthread_mutex_unlock(&device_guard);
}

/* Returns the number of a new execution that is dispatched now, or -1 if it cannot be watched: without memory, too. */
static int64_t dispatched(const ExecuteArgs *args, int32_t devices, int memory) {
  meet(args->executable);
  pthread_mutex_lock(&device_guard);
  int64_t number = device.dispatched, now = now_ns();
  if (number - device.done >= KEPT || devices < 1 || devices > MOST_DEVICES || !memory) {
    device.lost++;
    number = -1;
  } else {
    executions[number % KEPT] = (Execution){now, 0, devices, program_number(args->executable)};
    if (!open_++) {
      if (turned_ns) device.idle_ns += now - turned_ns;
      turned_ns = now;
    }
    if (open_ > device.deepest) device.deepest = open_;
    device.dispatched++;
    device.arguments += args->count;
  }
  pthread_mutex_unlock(&device_guard);
  return number;
}

/* Has `ended` called when the event is ready. It destroys the event if it is sagelet's own. */
static void watch(Watched *watched, void *event, int own) {
  watched->event = own ? event : NULL;
  ReadyArgs args = {sizeof args, NULL, event, ended, watched};
  if (failed(forward(EVENT_ON_READY, &args))) ended(NULL, watched);
}

static void *execute(ExecuteArgs *args) {
  if (args->struct_size < offsetof(ExecuteArgs, device) || !real[EVENT_ON_READY]) return forward(LOADED_EXECUTE, args);
  void *own[MOST_DEVICES] = {NULL};
  int32_t devices = args->devices > MOST_DEVICES ? -1 : (int32_t)args->devices;
  /* Before the call, because an execution that has begun must be watched to its end. */
  Watched *watched = devices < 1 ? NULL : malloc(devices * sizeof *watched);
  int64_t number = dispatched(args, devices, watched != NULL);
  if (number < 0) free(watched);
  int asked = args->complete != NULL;
  if (number >= 0 && !asked) args->complete = own;
  void *error = forward(LOADED_EXECUTE, args);
  for (int i = 0; number >= 0 && i < devices; i++) watched[i] = (Watched){number, NULL, watched};
  for (int i = 0; number >= 0 && i < devices; i++) {
    if (!error && args->complete[i]) watch(&watched[i], args->complete[i], !asked);
    else ended(NULL, &watched[i]);
  }
  if (!asked) args->complete = NULL;
  return error;
}

/* Another program may get the address. */
static void *loaded_destroy(DestroyArgs *args) {
  pthread_mutex_lock(&device_guard);
  for (int i = 0; i < programs_seen; i++)
    if (program_of[i] == args->object) program_of[i] = NULL;
  pthread_mutex_unlock(&device_guard);
  return forward(LOADED_DESTROY, args);
}

/* --- what others see ---------------------------------------------------------------------------------------------- */

const Status *sagelet_pjrt_front_status(void) { return &status; }

/* A busy or an idle time that still goes on is counted until now. */
void sagelet_pjrt_front_device(Device *to) {
  pthread_mutex_lock(&device_guard);
  *to = device;
  if (turned_ns) *(open_ ? &to->busy_ns : &to->idle_ns) += now_ns() - turned_ns;
  pthread_mutex_unlock(&device_guard);
}

/* Returns when execution `number` was done, 0 if it is not yet, and -1 if that is forgotten. */
int64_t sagelet_pjrt_front_done(int64_t number) {
  pthread_mutex_lock(&device_guard);
  int64_t at = number >= device.done ? 0 : number < device.dispatched - KEPT ? -1 : executions[number % KEPT].ended_ns;
  pthread_mutex_unlock(&device_guard);
  return at;
}

/* Copies the programs that have run, and returns how many there are. */
int sagelet_pjrt_front_programs(ProgramTime *to) {
  pthread_mutex_lock(&device_guard);
  int count = programs[MOST_PROGRAMS - 1].count ? MOST_PROGRAMS : programs_seen;
  memcpy(to, programs, count * sizeof *to);
  pthread_mutex_unlock(&device_guard);
  return count;
}

static void open_cache(void) {
  directory = getenv("SAGELET_COMPILE_CACHE");
  if (!directory || !*directory) return give_up("no cache was given to this job");
  if (strlen(directory) > 4000) return give_up("the path of the cache is too long");
  if (access(directory, R_OK | W_OK | X_OK)) return give_up("the directory of the cache cannot be used");
  status.enabled = 1;
}

/* The plugin's name and version, for messages. */
static const char *label(const char *path) {
  const char *named = getenv("SAGELET_PJRT_LABEL");
  return named && *named ? named : path ? path : "(none named)";
}

/* The oldest minor version of the API that torch_xla can use; that of the functions which this file calls at least. */
static int oldest(void) {
  const char *named = getenv("SAGELET_PJRT_OLDEST");
  int minor = named ? atoi(named) : 0;
  return minor > OLDEST_MINOR ? minor : OLDEST_MINOR;
}

const void *GetPjrtApi(void) {
  static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&once);
  if (!wrapped) {
    const char *path = getenv("SAGELET_PJRT_PLUGIN");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const Api *(*get)(void) = library ? (const Api *(*)(void))dlsym(library, "GetPjrtApi") : NULL;
    const Api *api = get ? get() : NULL;
    if (!api) {
      fprintf(stderr, "sagelet: the PJRT plugin %s does not load: %s\n", label(path), library ? "no GetPjrtApi" : dlerror());
    } else if (api->version.major == 0 && (api->version.minor < oldest() || api->struct_size < sizeof(Api) + LAST * sizeof(void *))) {
      fprintf(stderr, "sagelet: the PJRT plugin %s has PJRT C API %d.%d, and torch_xla needs 0.%d or newer: install a newer plugin\n",
              label(path), api->version.major, api->version.minor, oldest());
    } else if (api->version.major != 0) {
      fprintf(stderr, "sagelet: the PJRT plugin %s has PJRT C API %d.%d, and torch_xla knows only versions that begin with 0\n",
              label(path), api->version.major, api->version.minor);
    } else {
      size_t functions = (api->struct_size - sizeof(Api)) / sizeof(void *);
      if (functions > KNOWN) functions = KNOWN;
      Api *copy = malloc(sizeof(Api) + functions * sizeof(void *));
      if (!copy) {
        fprintf(stderr, "sagelet: no memory for the table of the PJRT plugin %s\n", label(path));
        pthread_mutex_unlock(&once);
        return NULL;
      }
      *copy = *api;
      copy->struct_size = sizeof(Api) + functions * sizeof(void *);
      if (copy->version.minor > KNOWN_MINOR) copy->version.minor = KNOWN_MINOR;
      for (size_t i = 0; i < functions; i++) {
        real[i] = (Call)api->function[i];
        copy->function[i] = real[i] ? (void *)forwards[i] : NULL;
      }
      status.major = api->version.major, status.minor = api->version.minor;
      platform = getenv("SAGELET_PJRT_NAME");
      if (platform && *platform) copy->function[PLATFORM_NAME] = (void *)platform_name;
      copy->function[CLIENT_COMPILE] = (void *)compile;
      copy->function[LOADED_EXECUTE] = (void *)execute;
      copy->function[LOADED_DESTROY] = (void *)loaded_destroy;
      open_cache();
      wrapped = copy;
    }
  }
  pthread_mutex_unlock(&once);
  return wrapped;
}
