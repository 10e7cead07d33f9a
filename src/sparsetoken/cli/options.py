"""Options that several commands share: a parameter whose type is a class of `Options` becomes one option per field."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import typer
from typer.models import OptionInfo

from .._core.user_code import share_source
from ..task import Task, Tokens
from ..training import Training
from . import app
from .printing import check_files, write_csv, write_json
from .values import DISTRIBUTED, number, parse_values, read_array, reads_array

if TYPE_CHECKING:
    from ..laws.signals import Signals


# Groups of commands in the help.
OWN_BAGS, THEORY, STUDIES = "Your own bags", "Theory and simulation", "The paper, and your own studies"


class Options:
    """The base of all blocks of options: dataclasses whose defaults are those of `option`."""

    panel: ClassVar[str] = ""
    words: ClassVar[tuple[str, ...]] = ()  # fields that are no numbers

    @classmethod
    def declared(cls) -> dict[str, Any]:
        """The options by field."""
        return {field.name: field.default for field in fields(cls)}  # type: ignore[arg-type]

    def changed(self) -> list[str]:
        """The fields that differ from their defaults."""
        return [name for name, option in self.declared().items() if getattr(self, name) != option.default]

    def grid(self) -> dict[str, Sequence[Any]]:
        """Name -> values of the numbers that are given, parsed from their text."""
        texts = {name: text for name, text in vars(self).items() if name not in self.words and text is not None}
        return {name: parse_values(name, text) for name, text in texts.items()}


def option(default: Any, help_text: str, *names: str, **more: Any) -> Any:
    """An option of a command, called as its parameter or field unless `names` have a long one."""
    return typer.Option(default, *names, help=help_text, **more)


def rare(default: Any, help_text: str, *names: str) -> Any:
    """An option that few need."""
    return option(default, help_text, *names, hidden=True)


def command(panel: str, name: str | None = None) -> Callable[..., Any]:
    """Register a command, whose parameters may be blocks of options."""
    return lambda function: app.command(name, rich_help_panel=panel)(with_options(function))


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take blocks of options."""
    parameters: dict[str, inspect.Parameter] = {}
    blocks: dict[str, type[Options]] = {}

    def add(name: str, default: Any, kind: Any, panel: str = "") -> None:
        default = copy(default)  # other blocks may share it
        if isinstance(default, OptionInfo):  # arguments have a panel of their own
            default.rich_help_panel = panel or None
            names = default.param_decls or ()
            long = () if any(text.startswith("--") for text in names) else (f"--{name.replace('_', '-')}",)
            default.param_decls = (*long, *names)
        parameters[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    hints = get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        block = hints[name]
        if not (isinstance(block, type) and issubclass(block, Options)):
            add(name, parameter.default, block)
            continue
        blocks[name], types = block, get_type_hints(block)
        for field, default in block.declared().items():
            add(field, default, types[field], block.panel)

    def gathered(**given: Any) -> Any:
        made = {name: block(**{f: given.pop(f) for f in block.declared()}) for name, block in blocks.items()}
        return function(**made, **given)

    gathered.__name__, gathered.__doc__, gathered.__module__ = function.__name__, function.__doc__, function.__module__
    gathered.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
    gathered.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return gathered


def _field(of: Any, name: str, help_text: str, hidden: bool = False) -> Any:
    """The option of a field of a library's object, with its default."""
    return option(f"{getattr(of, name):g}", help_text, hidden=hidden)


@dataclass(frozen=True)
class TaskOptions(Options):
    """A task's fields as text; commands that run over grids take lists and ranges."""

    panel: ClassVar[str] = "Task"
    length: str = _field(Task(), "length", "L, tokens per bag; 10:0.5,20:0.5 (value:probability) where bags differ.")
    sparsity: str = _field(Task(), "sparsity", "R, signal tokens in a positive bag; may differ likewise.")
    strength: str = _field(Task(), "strength", "θ, the signal's size; may differ likewise.")
    prevalence: str = _field(Task(), "prevalence", "π = P(y = +1).")
    label_noise: str = _field(Task(), "label_noise", "Probability that a training label is flipped.", hidden=True)
    contamination: str = _field(Task(), "contamination", "Probability of signal in a negative bag.", hidden=True)
    correlation: str = _field(Task(), "correlation", "ρ, correlation of two tokens of a bag.", hidden=True)

    def task(self) -> Task:
        """The one task that they describe."""
        texts = vars(self).items()
        return Task.from_dict({name: text if name in DISTRIBUTED else number(name, text) for name, text in texts})


def _execute(files: list[Path]) -> list[Path]:
    """Execute the user's files before the command's other options are read; worker processes do the same."""
    for file in files:
        if not file.is_file():
            raise ValueError(f"--module {file} does not exist")
        try:
            share_source(file)
        except (Exception, SystemExit) as error:  # whatever the user's code raises; SPARSETOKEN_DEBUG=1 shows where
            if os.environ.get("SPARSETOKEN_DEBUG"):
                raise
            raise ValueError(f"--module {file} cannot be executed: {type(error).__name__}: {error}") from error
    return files


SEED = option(0, "One integer all randomness comes from.")
STORE = option(None, "SQLite file of finished trials [sparsetoken-results/store.sqlite].")
MODULES = option(
    [],
    "Python file of your own, executed first; it may register losses, classifiers and models by name. Repeatable.",
    "--module",
    callback=_execute,
    is_eager=True,
    hidden=True,
)


@dataclass(frozen=True)
class LossOptions(Options):
    """The loss, and the user's files that may register it."""

    panel: ClassVar[str] = "Training"
    loss: str = option(
        "logistic",
        "logistic, square, smoothed_hinge, exponential, your own (--module); logistic:positives=9 weighs positive bags.",
    )
    modules: list[Path] = MODULES


@dataclass(frozen=True)
class TrainingOptions(LossOptions):
    """A training's fields; numbers as text, lists and ranges included."""

    alpha0: str = _field(Training(), "alpha0", "n0/d, samples of the two gradient steps.")
    alpha1: str = _field(Training(), "alpha1", "n1/d, samples of the readout.")
    ridge: str = _field(Training(), "ridge", "λ of (1/n1) Σ l + (λ/2)‖w‖².")
    eta_w: str = _field(Training(), "eta_w", "Rate of the readout's step.", hidden=True)
    eta_b: str = _field(Training(), "eta_b", "Rate of the bias's step; auto: refitted before each step.", hidden=True)
    eta_q: str = _field(Training(), "eta_q", "Rate of the query's step.", hidden=True)
    beta: str = _field(Training(), "beta", "Inverse temperature of the softmax.", hidden=True)
    query_by: str = rare(
        "steps", "The query's direction: steps; with --eta-b auto also products:2, eigenvector or positive_eigenvector."
    )
    equal_samples: bool = rare(False, "Give pooled and vectorized n0 + n1 samples.")
    words: ClassVar[tuple[str, ...]] = ("modules", "loss", "query_by", "equal_samples")

    def with_task(self, values: Mapping[str, Any], positions: Any = "uniform") -> tuple[Task, Training]:
        """The task and the training with these numbers."""
        of_task, of_training = (
            {name: value for name, value in values.items() if name in kind.__dataclass_fields__}
            for kind in (Task, Training)
        )
        named = {name: getattr(self, name) for name in self.words if name != "modules"}
        return Task(**of_task, positions=positions), Training(**named, **of_training)


@dataclass(frozen=True)
class DeploymentOptions(Options):
    """What differs at test time; None where it is as in training."""

    panel: ClassVar[str] = "Test on other bags than those of the training"
    test_length: str = rare(None, "Tokens per bag at test time.")
    test_sparsity: str = rare(None, "Signal tokens in a positive bag at test time.")
    test_strength: str = rare(None, "The signal's size at test time.")
    test_prevalence: str = rare(None, "P(y = +1) at test time.")
    test_sharpness: str = rare(None, "k = β‖q‖ at test time (models with a query).")
    test_bias_shift: str = rare(None, "Added to the trained bias at test time.")


@dataclass(frozen=True)
class SignalOptions(Options):
    """Several signals instead of one."""

    panel: ClassVar[str] = "Several signals"
    signals: str = rare(
        None,
        "For -m heads:H: number of signals, orthogonal to each other, or a .npy or .csv file with a unit vector per row.",
    )
    shares: str = rare(None, "How often each signal is carried, such as 0.7,0.3 [equal].")
    carried: str = rare(
        None,
        "What a positive bag carries: one signal [default], independent (each signal token its own) or all in turn.",
    )

    def read(self) -> Signals | None:
        """The signals that the options describe; None without any."""
        if self.signals is None:
            if self.shares is not None or self.carried is not None:
                raise ValueError("--shares and --carried belong to --signals")
            return None
        from ..laws.signals import Signals

        directions: Any
        if reads_array(self.signals):
            directions = read_array("signals", self.signals)
            directions = directions.reshape(1, -1) if directions.ndim < 2 else directions
        elif not self.signals.isdecimal():
            raise ValueError(f"signals must be a number of signals or a file .npy or .csv, got {self.signals!r}")
        else:
            directions = int(self.signals)
        try:
            shares = None if self.shares is None else [float(part) for part in self.shares.split(",")]
        except ValueError:
            raise ValueError(f"shares must be numbers such as 0.7,0.3, got {self.shares!r}") from None
        return Signals.of(directions, shares, self.carried or "one")


@dataclass(frozen=True)
class NoiseOptions(Options):
    """What the tokens' noise is made of."""

    panel: ClassVar[str] = "Noise"
    noise: str = option(
        None,
        "gaussian, rademacher, uniform, laplace, sparse:0.1, student:5; digits, photographs or text (real tokens); or a "
        "file of your own bags without the signal.",
    )
    covariance: str = rare(
        None,
        "Gaussian noise of this covariance: power:0.5 (eigenvalues like j^-0.5), or a .npy or .csv file with a matrix or "
        "its eigenvalues.",
    )
    standardise: str = rare("features", "Of a file of noise: features (each), whiten, scale or none.")
    mixed: bool = rare(False, "Shuffle tokens of a file of noise across bags.")
    replace: bool = rare(False, "Use bags of a file of noise several times if there are too few.")
    bag: str = rare("bag_id", "Column of a file of noise with the bag ids.")
    label: str = rare("label", "Column of a file of noise with labels, if any: bags of the first class are taken.")
    ignore: list[str] = rare([], "Column of a file of noise that is no feature; repeatable.")

    def read(self, signals: Signals | None) -> Tokens:
        """The tokens that the options describe."""
        covariance: Any = self.covariance
        if covariance is not None and reads_array(covariance):
            covariance = read_array("covariance", covariance)
        return Tokens(self._noise(), covariance, signals=signals)

    def _noise(self) -> Any:
        if self.noise is None or not self.noise.lower().endswith((".csv", ".csv.gz", ".parquet", ".npz")):
            if self.standardise != "features" or self.mixed or self.replace or self.ignore:
                raise ValueError("--standardise, --mixed, --replace and --ignore belong to a file of noise")
            return self.noise
        from ..bags.reading.read_bags import read_bags
        from ..simulation.noise import RealNoise

        read = read_bags(self.noise, self.bag, self.label, ignore=self.ignore, need_labels=False)
        bags = read.bags
        if read.labels is not None:
            bags = bags[read.labels == sorted(set(read.labels.tolist()))[0]]
        order = "mixed" if self.mixed else "own"
        return RealNoise(bags, self.standardise, order, self.replace, name=Path(self.noise).name)

    def described(self) -> dict[str, str]:
        """The noise's entries in files and titles."""
        entries = {"noise": self.noise or "gaussian", "covariance": self.covariance}
        return {name: value for name, value in entries.items() if value is not None}


@dataclass(frozen=True)
class JsonFile(Options):
    """A file for the numbers of a command; subclasses have more."""

    panel: ClassVar[str] = "Output"
    json_file: Path = option(None, "File for every number, as JSON.", "--json")

    def check(self, inputs: Sequence[Any] = ()) -> None:
        """Check before the work that the files can be written, and that none replaces another or an input."""
        outputs = [(self.json_file, ".json"), (getattr(self, "csv_file", None), ".csv")]
        check_files(outputs, inputs, getattr(self, "plot", None))

    def writers(self, record: Any, rows: Any = (), draw: Callable[[Path], None] | None = None) -> list[Any]:
        """What `printing.deliver` writes to them; rows may be made on demand."""
        return [
            (self.json_file, lambda path: write_json(path, record)),
            (getattr(self, "csv_file", None), lambda path: write_csv(path, rows() if callable(rows) else rows)),
            (getattr(self, "plot", None), draw),
        ]


@dataclass(frozen=True)
class TableFiles(JsonFile):
    """Files for numbers and a table."""

    csv_file: Path = option(None, "File for a table, as CSV.", "--csv")


@dataclass(frozen=True)
class DrawnFiles(TableFiles):
    """Files for numbers, a table and a picture."""

    plot: Path = option(None, "Picture to write (.png, .pdf or .svg).")
