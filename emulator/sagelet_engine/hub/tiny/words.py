"""Words that are one token for the small tokenizers. All other words are split."""

_TEXT = """
the of and to in is it that was for on with as be at by this have from or one had not but what all were when we
there can an your which their said if do will each about how up out them then she he his her has him see time could
no make than first been its who now people my made over did down only way find use may water long little very after
words called just where most know get through back much good new write our me man too any day same right look think
also around another came come work three word must because does part even place well such here take why help put
different away again off went old number great tell men say small every found still between name should home big
give air line set own under read last never us left end along while might next sound below saw something thought
both few those always show large often together asked house world going want school important until form food keep
children feet land side without boy once animals life enough took four head above kind began almost live page got
movie film story bad best better love funny characters director acting question answer sentence context positive
negative true false entailment contradiction neutral translate English German French summarize
"""
WORDS = tuple(_TEXT.split())
