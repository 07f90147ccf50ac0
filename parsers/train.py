"""Training progress: steps, losses, checkpoints, in the words of Megatron, DeepSpeed, NeMo, HF Trainer, torchtitan and nanoGPT."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from parsers.contract import Event, Line, LineDialect, Record, Window

_CUT = 4000


@dataclass(slots=True)
class Step:
    """One progress line: `seconds` per step, losses and norms as printed."""

    seq: int | None = None
    seconds: float | None = None
    loss: float | None = None
    norm: float | None = None
    nans: int = 0
    skipped: int = 0
    attrs: dict[str, object] = field(default_factory=dict)

    @property
    def bad(self) -> str | None:
        """What is not a number; an infinite norm in a skipped step is fp16's loss scaling at work."""
        if self.loss is not None and not math.isfinite(self.loss):
            return f"loss {self.loss}"
        if self.nans > 0:
            return f"{self.nans} nan iterations"
        if self.norm is not None and (math.isnan(self.norm) or (math.isinf(self.norm) and not self.skipped)):
            return f"grad norm {self.norm}"
        return None


def _number(text: str | None) -> float | None:
    """A number as loggers print it: `2.3E+00`, `nan`, `1,234`, `'2.3'`."""
    cleaned = (text or "").strip(" '\",)}]").replace(",", "")
    if not cleaned or len(cleaned) > 40:
        return None
    try:
        return float(cleaned.removeprefix("tensor(").removesuffix(".0") if cleaned[:1] in "nN" else cleaned.removeprefix("tensor("))
    except ValueError:
        return None


def _finite(text: str | None) -> float | None:
    number = _number(text)
    return number if number is not None and math.isfinite(number) else None


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return int(number) if number is not None and math.isfinite(number) and abs(number) < 1e18 else None


# iteration     4999/  500000 | consumed samples: 5118976 | elapsed time per iteration (ms): 4203.0 | lm loss: 2.309000E+00 |
_ITERATION = re.compile(r"(?:iteration|step) {0,12}(\d{1,12})/ {0,12}\d{1,12}")
_ELAPSED = re.compile(r"elapsed time per iteration \((ms|s)\): {0,4}([\d.eE+-]{1,24})")


def _columns(text: str) -> dict[str, str]:
    """The `key: value` cells of a bar-separated line; old loggers leave the colon out."""
    cells = (cell.rpartition(":") if ":" in cell else cell.strip().rpartition(" ") for cell in text.split("|")[:80])
    return {key.strip().lower().replace("-", " "): value.strip() for key, colon, value in cells if colon}


def _losses(cells: dict[str, str]) -> float | None:
    named = [value for key, value in cells.items() if key.endswith("loss") and "scale" not in key and len(key) < 60]
    numbers = [number for number in map(_number, named) if number is not None]
    broken = [number for number in numbers if not math.isfinite(number)]
    return broken[0] if broken else numbers[0] if numbers else None


def _megatron(text: str) -> Step | None:
    at, elapsed = _ITERATION.search(text), _ELAPSED.search(text)
    if not at or not elapsed:
        return None
    cells, spent = _columns(text), _number(elapsed[2])
    rate = next((number for key, value in cells.items() if "tflop" in key and (number := _number(value)) is not None), None)
    return Step(
        int(at[1]),
        spent / (1000 if elapsed[1] == "ms" else 1) if spent is not None else None,
        _losses(cells),
        _number(cells.get("grad norm")),
        _whole(cells.get("number of nan iterations")) or 0,
        _whole(cells.get("number of skipped iterations")) or 0,
        {"tflops": rate} if rate is not None else {},
    )


# steps: 10 loss: 11.2041 iter time (s): 0.912 samples/sec: 8.771
_PIPE = re.compile(r"steps: (\d{1,12}) loss: (\S{1,30}) iter time \(s\): ([\d.]{1,20})")
# [Rank 0] step=10, skipped=0, lr=[0.0003], mom=[(0.9, 0.95)]
_DEEPSPEED = re.compile(r"\bstep=(\d{1,12}), skipped=(\d{1,12}), lr=")
# epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=52.1, CurrSamplesPerSec=53.0
_MICRO = re.compile(r"micro_step=(\d{1,12})/global_step=(\d{1,12}), RunningAvgSamplesPerSec=([\d.]{1,20})")


def _deepspeed(text: str) -> Step | None:
    if found := _PIPE.search(text):
        return Step(int(found[1]), _number(found[3]), _number(found[2]))
    if found := _DEEPSPEED.search(text):
        return Step(int(found[1]), skipped=0, attrs={"skipped_total": int(found[2])})
    if found := _MICRO.search(text):
        return Step(int(found[2]), attrs={"samples_per_s": _number(found[3])})
    return None


# {'loss': 2.31, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.1}
# {"current_steps": 10, "total_steps": 300, "loss": 2.31, "lr": 5e-05, "epoch": 0.1}
_HF = re.compile(r"(?:\{|\d, )'loss': ('?[\w.+-]{1,30}'?), ([^{}\n]{0,600}?)'epoch': '?([\d.]{1,20})'?")
_HF_NORM = re.compile(r"'grad_norm': '?([\w.+-]{1,30})")
_HF_STEP = re.compile(r"'(?:global_|current_)?steps?(?:/max_steps)?': '?(\d{1,12})")


def _hf(text: str) -> Step | None:
    text = text.replace('"', "'") if '"loss": ' in text else text
    found = _HF.search(text)
    if not found:
        return None
    norm, step = _HF_NORM.search(found[2]), _HF_STEP.search(text[max(0, found.start() - 80) : found.end() + 200])
    made = Step(int(step[1]) if step else None, loss=_number(found[1]), norm=_number(norm[1]) if norm else None)
    made.attrs["epoch"] = _number(found[3])
    return made


# step: 10  loss:  8.2123  grad_norm: 2.1  memory: 40.1GiB(50.7%)  tps: 5,123  tflops: 300.2  mfu: 30.3%
_TITAN = re.compile(r"\bstep: {1,4}(\d{1,12}) {1,4}loss: {1,6}(\S{1,30})")
_TITAN_NORM = re.compile(r"grad_norm: {1,6}(\S{1,30})")
_TPS = re.compile(r"\b(?:tps|wps): {1,6}([\d,.]{1,20})")
# iter 100: loss 3.2341, time 123.45ms, mfu 30.1%
_NANO = re.compile(r"\b(?:iter|step) (\d{1,12}):? (?:train )?loss:? ([\w.+-]{1,30}),? (?:time|dt:?) ([\d.]{1,20}) ?(ms|s)")


# completed step: 10, seconds: 2.301, TFLOP/s/device: 300.1, Tokens/s/device: 5000.2, loss: 9.100
_MAXTEXT = re.compile(
    r"completed step: (\d{1,12}), seconds: ([\d.]{1,20}+)[^\nl]{0,99}+(?:(?!\bloss: )l[^\nl]{0,99}+){0,9}+loss: ([\w.+-]{1,24})"
)
# characters between a step and its loss; what is farther off is another's
_LOOP_GAP = 80
_LOSS = r"(?:\b|(?<=\btrain_))[Ll]oss[ :=]{1,3}"
# Epoch [1/10], Step [100/600], Loss: 0.2134 | step=100 loss=2.31
_LOOP = re.compile(
    r"\b(?:[Ss]tep|[Ii]ter|[Ii]teration)[ :=\[]{1,3}(\d{1,12}+)(?:/\d{1,12}+)?+\]?+[,:|\s]{1,4}+"
    rf"([^\nLl]{{0,80}}+(?:(?!{_LOSS}(?:nan|inf|-?\d))[Ll][^\nLl]{{0,80}}+){{0,9}}+)"
    rf"{_LOSS}(nan|inf|-?\d[\d.]{{0,20}}(?:e[+-]?\d{{1,3}})?)\b",
)
# epoch 001:     10 / 1000 loss=12.3, ppl=5000, ups=1.2, num_updates=10, lr=1e-05, gnorm=2.3
_UPDATES = re.compile(r"\bnum_updates=(\d{1,12})\b")
_HELD_OUT = re.compile(r"(?i)eval|valid|\bval\b|test")


def _loop(text: str) -> Step | None:
    if found := _MAXTEXT.search(text):
        return Step(int(found[1]), _number(found[2]), _number(found[3]))
    if (updates := _UPDATES.search(text)) and (loss := _BAR_LOSS.search(text)):
        return None if _HELD_OUT.search(text[: loss.start()]) else Step(int(updates[1]), loss=_number(loss[1]))
    found = _LOOP.search(text)
    while found and len(found[2]) > _LOOP_GAP:
        found = _LOOP.search(text, found.start() + 1)
    if not found or _HELD_OUT.search(text[max(0, found.start() - 40) : found.end()]):
        return None
    return Step(int(found[1]), loss=_number(found[3]))


def _titan(text: str) -> Step | None:
    if found := _TITAN.search(text):
        norm, rate = _TITAN_NORM.search(text), _TPS.search(text)
        made = Step(int(found[1]), loss=_number(found[2]), norm=_number(norm[1]) if norm else None)
        made.attrs |= {"tokens_per_s": _number(rate[1])} if rate else {}
        return made
    if found := _NANO.search(text):
        spent = _number(found[3])
        return Step(int(found[1]), spent / (1000 if found[4] == "ms" else 1) if spent is not None else None, _number(found[2]))
    return None


# Training epoch 0, iteration 4/999 | lr: 1e-05 | global_step: 4 | reduced_train_loss: 11.03 | train_step_timing in s: 2.1
_GLOBAL = re.compile(r"global_step[=:] ?([\d.e+]{1,16})")
_TIMING = re.compile(r"train_step_timing in s[=:] ?([\d.e+-]{1,16})")
_BAR_LOSS = re.compile(r"\b(?!val|eval|test)(?:[a-z]{1,12}_){0,3}loss(?:=|: )([\w.+-]{1,24})")
# Epoch 0:  11%|██  | 18210/160020 [3:10:22<24:41:02,  1.59it/s, loss=2.4]
_BAR = re.compile(r"\| {0,4}(\d{1,12})/(\d{1,12}) \[[\d:]{1,12}<[\d:?]{1,12}, {1,4}([\d.]{1,12}) ?(it/s|s/it)")
_BAR_NAME = re.compile(r"(?i)\b(?:epoch|train\w{0,8})\b[^|\n]{0,24}$")


def _bar(text: str) -> Step | None:
    """A progress bar of a training loop; other loops draw bars as well, so it must name an epoch or a loss."""
    step, timing, loss = _GLOBAL.search(text), _TIMING.search(text), _BAR_LOSS.search(text)
    bars = list(_BAR.finditer(text))
    bar = bars[-1] if bars else None
    if not bar and not (step and loss):
        return None
    if bar and not (loss or step) and not _BAR_NAME.search(text[max(0, text.find("|") - 60) : max(0, text.find("|"))]):
        return None
    seconds = _number(timing[1]) if timing else None
    if bar and seconds is None and (rate := _number(bar[3])):
        seconds = rate if bar[4] == "s/it" else 1 / rate
    seq = _whole(step[1]) if step and "e" not in step[1] else int(bar[1]) if bar else _whole(step[1] if step else None)
    return Step(seq, seconds, _number(loss[1]) if loss else None)


# Unexpected result nan on rank 5 at iteration #12 invocation #1 (message='found NaN in local grad norm ...')
_UNEXPECTED = re.compile(
    r"Unexpected result (\S{1,40}) on rank (\d{1,7}) at iteration #(\d{1,12})(?: invocation #\d{1,6})?(?: \(message='([^'\n]{0,300}))?"
)
# Rank 5, node train-3, device 5, iteration #12: First rerun: unexpected result is reproducible ...
_RERUN = re.compile(r"Rank (\d{1,7}), node (\S{1,128}), device (\d{1,4}), iteration #?(\d{1,12}): ([^\n]{1,300})")
# Rank 3: found NaN in local grad norm ... Device: 3, node: gpu-12
_FOUND = re.compile(r"(?:[Rr]ank (\d{1,7}): ?)?found (?:NaN|Inf)[^\n:]{1,160}+(?<=Device): (\d{1,4}), node: (\S{1,128})")
_FLOOR = re.compile(
    r"loss scale already at minimum|[Ll]oss scale (?:has )?reached (?:its )?minimum|minimum loss scale reached",
    re.IGNORECASE,
)
# [batch=100/3200]: then  Train loss/train/total: nan | [step=100/7000,epoch=0] then  train/CrossEntropyLoss=nan
_LOSS_BELOW = re.compile(r"\b(?:loss/train/total: |train/CrossEntropyLoss=)(nan|inf|NaN)\b")
_LOSS_IS = re.compile(r"\b[Ll]oss is (nan|inf|NaN|Inf)\b(?!-)|[Ff]ound (?:nan|NaN|inf|Inf) in (?:the )?(?:loss|grad\w{0,8})")
_SPIKE = re.compile(
    r"(?i)\b(?:loss|grad(?:ient)?(?: norm)?) spike (?:detected|at|found)|\bspiky loss\b|detected (?:a )?(?:loss|gradient) spike"
)


def _numbers(line: Line, text: str) -> Iterator[Record]:
    """Lines that speak of a NaN, an infinity or a spike outside of a progress line."""
    if found := _UNEXPECTED.search(text):
        said = found[4] or ""
        spike = "piky" in said or "spike" in said
        yield Event(
            "train.spike" if spike else "train.nan", found[0], line.number, rank=int(found[2]), seq=int(found[3]),
            value=_finite(found[1]), state=said or found[1],
        )  # fmt: skip
    elif found := _RERUN.search(text):
        yield Event(
            "train.rerun", found[0], line.number, host=found[2].rstrip(","), rank=int(found[1]), seq=int(found[4]), state=found[5][:200],
            attrs={"local": int(found[3])},
        )  # fmt: skip
    elif found := _FOUND.search(text):
        rank = int(found[1]) if found[1] else None
        yield Event("train.nan", found[0], line.number, host=found[3].rstrip(".,;"), rank=rank, state="NaN", attrs={"local": int(found[2])})
    elif found := _FLOOR.search(text):
        yield Event("train.nan", text.strip()[:300], line.number, state="loss scale at its floor")
    elif (found := _LOSS_IS.search(text)) and not re.search(r"Error: |Exception: |\bif\b|assert", text):
        yield Event("train.nan", text.strip()[:300], line.number, state=found[0])
    elif found := _LOSS_BELOW.search(text):
        yield Event("train.nan", text.strip()[:300], line.number, state=f"loss {found[1]}")
    elif found := _SPIKE.search(text):
        yield Event("train.spike", text.strip()[:300], line.number, state=found[0])


_SAVED = re.compile(
    r"(?i)(?=[cfgmsw\[])(?:successfully saved checkpoint"
    r"|\b(?:saved|wrote|finished saving)(?: the| a| model| global| async| distributed){0,2} checkpoint"
    r"|checkpoint(?: (?:\S{0,200}+ )?(?:is ready now|(?:was |has been |is )?(?:successfully )?saved)| save \([^\n]{0,80}finalized"
    r"| save for [^\n]{0,300} finalized successfully|[^\n]{0,40} saved (?:in|to) )|model weights saved in|Global Checkpoint Save"
    r"|\[Torch\] Saved \S{1,300}model_states)"
)
_SAVING = re.compile(
    r"(?i)\bsaving (?:the |model |a )?checkpoint|about to be saved|saving model to '|Scheduled async checkpoint save"
    r"|\[Torch\] Saving \S{1,300}model_states"
)
_LOADED = re.compile(
    r"(?i)successfully loaded checkpoint|\b(?:loaded|restored|finished loading|resum(?:ed|ing))(?: the| a| from| model"
    r"| training){0,3} checkpoint|checkpoint loaded"
)
_LOADING = re.compile(r"(?i)\bloading (?:the |a )?checkpoint|loading checkpoint from")
#     save-checkpoint ................................: (21345.12, 21346.99)     time (ms) | save-checkpoint: 21345.12
_TIMER = re.compile(r"\b(save|load)-checkpoint[ .]{0,80}: (?:\([\d.]{1,20}, )?([\d.]{1,20})\)?")
_NOT = re.compile(
    r"(?i)\b(?=[cefnsuw])(?:fail(?:ed|ure)?|unable|could not|cannot|can't|error|not found|will not|no checkpoint|skipp\w{1,4})\b"
)
_WHERE = re.compile(
    r"(?i)(?=[cgis])(?:(?:iteration|global[_ ]step|step)[ _=:]{0,12}(\d{1,12})|checkpoint-(\d{1,12})|iter_(\d{1,12})|step[=_-](\d{1,12}))"
)
_TOOK = re.compile(r"(?i)\b(?:took|in|duration:?) {0,4}([\d.]{1,16}) ?(ms|s\b|sec)")
_TO = re.compile(r"(?:to|in|from) ['\"]?(/\S{1,300}|\S{1,200}/\S{1,200})")


def _state(text: str) -> str | None:
    for state, pattern in (("saved", _SAVED), ("loaded", _LOADED), ("saving", _SAVING), ("loading", _LOADING)):
        if pattern.search(text):
            return None if _NOT.search(text) else state
    return None


def _timer(line: Line, found: re.Match[str]) -> Iterator[Record]:
    """Megatron's timers are in milliseconds; of a span over ranks the longest counts."""
    state, spent = ("saved" if found[1] == "save" else "loaded"), _finite(found[2])
    said = f"checkpoint {state} in {found[2]} ms"
    yield Event("train.checkpoint", said, line.number, duration_s=spent / 1000 if spent is not None else None, state=state)


def _checkpoint(line: Line, text: str) -> Iterator[Record]:
    if found := _TIMER.search(text):
        yield from _timer(line, found)
        return
    state = _state(text)
    if not state or "shards:" in text:
        return
    where, took, path = _WHERE.search(text), _TOOK.search(text), _TO.search(text)
    seq = next((int(part) for part in where.groups() if part), None) if where else None
    spent = _number(took[1]) if took else None
    if took and spent is not None and took[2].lower() == "ms":
        spent /= 1000
    yield Event(
        "train.checkpoint", text.strip()[:300], line.number, seq=seq, duration_s=spent, state=state,
        attrs={"path": path[1].rstrip("'\",.")} if path else {},
    )  # fmt: skip


def _step(text: str) -> Step | None:
    for read in (_megatron, _deepspeed, _hf, _titan, _bar, _loop):
        if made := read(text):
            return made
    return None


def _progress(line: Line, step: Step) -> Iterator[Record]:
    what = "step" if step.seq is None else f"step {step.seq}"
    loss = "" if step.loss is None else f", loss {step.loss:g}"
    spent = "" if step.seconds is None else f", {step.seconds:g} s"
    value = step.loss if step.loss is not None and math.isfinite(step.loss) else None
    attrs = {**step.attrs, **({"grad_norm": step.norm} if step.norm is not None and math.isfinite(step.norm) else {})}
    yield Event("train.step", f"{what}{loss}{spent}", line.number, seq=step.seq, duration_s=step.seconds, value=value, attrs=attrs)
    if bad := step.bad:
        yield Event("train.nan", f"{what}: {bad}", line.number, seq=step.seq, state=bad)


def parse(window: Window) -> Iterable[Record]:
    """Records of one progress, checkpoint or NaN line."""
    line = window.line
    # a progress bar redraws itself on one line; what counts stands at the end, a log line's cells at the beginning
    text = line.text if len(line.text) <= 2 * _CUT else line.text[:_CUT] + " " + line.text[-_CUT:]
    if step := _step(text):
        return _progress(line, step)
    if records := list(_numbers(line, text)):
        return records
    return _checkpoint(line, text)


DIALECT = LineDialect(
    "train",
    (),
    parse,
    hints=(
        "elapsed time per iteration", "iter time (s)", ", skipped=", "RunningAvgSamplesPerSec", "'loss': ", '"loss": ',
        "step: ", "it/s", "s/it",
        "global_step", "Unexpected result ", ", iteration ", "found NaN", "found Inf", "Found nan", "Found inf", "oss is nan", "oss is inf",
        "oss is NaN", "oss is Inf",
        "loss scale already", "oss scale ", "spike", "piky", "heckpoint", ", time ", "eights saved in", "saving model to", "model_states",
        "loss/train/total", "EntropyLoss=", " dt:",
        "oss: ", "oss=", " loss ",
    ),
)  # fmt: skip
