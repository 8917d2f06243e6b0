"""The problems of CanItEdit, read from the hub or a file, and the sets that were published.

F. Cassano et al., "Can It Edit? Evaluating the ability of large language models to follow code
editing instructions" (2023), arXiv:2312.12450.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from swe_retry.kit import UserError, fault_of, quantity, rows_of_hub, rows_of_path

HUB_ID = "nuprl/CanItEdit"
_SPLIT = "test"
InstructionKind = Literal["descriptive", "lazy"]
"""How much an instruction says."""
KINDS: tuple[InstructionKind, ...] = get_args(InstructionKind)
MOST_CHARACTERS = 200_000
"""The longest program that is measured: distances take time quadratic in the length."""
Code = Annotated[str, Field(max_length=MOST_CHARACTERS)]
# A part of the names of files.
_FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][\w.-]{0,119}$")]


class Checked(BaseModel):
    """A value of a file of others: types are checked, unknown keys are left out."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False
    )


class Taxonomy(Checked):
    """What kind of problem it is; ``libraries`` are those that it needs, none for most."""

    change_kind: Literal["corrective", "adaptive", "perfective"]
    libraries: Annotated[tuple[str, ...], Field(strict=False)]
    topic: str


class Problem(Checked):
    """A program to edit, two instructions that ask for the same edit, a solution, and tests.

    Attributes:
        full_name: id and name, the first part of the names of its files.
        after: the solution of the authors.
    """

    id: Annotated[int, Field(ge=0)]
    name: str
    full_name: _FileName
    before: Code
    after: Code
    tests: Code
    instruction_descriptive: str
    instruction_lazy: str
    taxonomy: Taxonomy

    def instruction(self, kind: InstructionKind) -> str:
        if kind == "lazy":
            return self.instruction_lazy
        return self.instruction_descriptive


def load_problems(source: str, *, v1: bool = False) -> tuple[Problem, ...]:
    """Return the problems of a ``.jsonl``, ``.json`` or ``.parquet`` file, or of the hub, by id.

    With ``v1`` only the 54 of the first paper.
    """
    path = Path(source).expanduser()
    if path.suffix in (".json", ".jsonl", ".parquet") or path.exists():
        rows = rows_of_path(path, _SPLIT)
    elif source.count("/") == 1:
        rows, _ = rows_of_hub(source, _SPLIT)
    else:
        raise UserError(
            f"there are no problems in {source}; give a .jsonl or .parquet, or {HUB_ID}"
        )
    problems = []
    for number, row in enumerate(rows, 1):
        try:
            problems.append(Problem.model_validate(row))
        except ValidationError as error:
            fault = f"row {number}: {fault_of(error)}"
            raise UserError(f"{source}, {fault}; correct the row") from error
    if not problems:
        raise UserError(f"{source} has no rows; give a file with problems, or {HUB_ID}")
    for key in ("id", "full_name"):
        counts = Counter(getattr(problem, key) for problem in problems)
        value, count = counts.most_common(1)[0]
        if count > 1:
            raise UserError(
                f"{source} has the problem {value} twice; leave one of them out"
            )
    if v1:
        of_first_paper = []
        for problem in problems:
            if problem.full_name in FIRST_PAPER:
                of_first_paper.append(problem)
        problems = of_first_paper
        if len(problems) < len(FIRST_PAPER):
            raise UserError(
                f"{source} has {len(problems)} of the {len(FIRST_PAPER)} problems of "
                "problems.v1"
            )
    return tuple(sorted(problems, key=lambda problem: problem.id))


_NAMES = """
1_cipher 2_cov_corr 3_hello_world 4_tensor_operations 6_locked_box 7_temperature_converter
8_vector_lib 9_sorting 10_csv_parser 11_fibonacci 12_linkedlist_sort 13_maze_solver
14_matrix_operations 15_pandas_random_data 16_interpreter 17_quiz 18_deck_of_cards
19_traffic_analysis 20_html_parser 21_dijkstra_bellman 22_diff_format 23_bpe_tokenizer
24_tree_abstractions 25_sudoku_solver 26_kl_divergence 28_password_strength_checker
29_genetic_algorithm 30_cross_correlation 31_bookkeeping 32_markov_transition
33_genetic_algorithm_2 34_oop_refactor 35_topological_sort 36_strongly_connected 37_dijkstras
38_high_order 39_vowel_count 40_adjacency 41_group_theory 44_html_to_markdown 45_double_consonant
46_consonants_within 47_merge_sort 48_max_sum_subarray 49_binary_search 50_syllable_count
51_managers_manager 52_magic_square 53_minimax_to_alphabeta 54_strategy 55_bm25
56_interference_vars 57_string_formatter 58_dependency_solver 59_standard_scaling 60_unique_number
61_ridge_regression 63_knary_trees 65_tournament_tree 66_product_analysis 67_test_invariants
68_prime_numbers_problem 70_sieve_of_eratosthenes 71_euclidean_algorithm 72_disjoint_cycles
73_permutation_equality 76_memory_alloc 77_step_counter 78_llm_inference 79_int_to_key
80_circular_queue 81_linked_list_debug 85_dpll 86_pyast 87_documentation 88_correlation_clustering
89_palindrome_detector 90_dna_transcriber 91_interest_calculator 92_heron_area 94_knn 95_dbscan
96_distribution_clustering 97_nash_equilibrium 98_encoder_decoder_dataset 99_secondary_keys
100_pandas_apply 101_house_prices 102_nfa 103_postfix 104_filesystem 105_descent_methods
106_conways_game 107_multiindex_sort 110_integration 111_coprime_euler 112_elliptic_curves
113_schnorr_zk 114_grid_world_dp 115_arrangement_selections 116_cfg 117_matrix
118_principal_component_analysis 119_pollards_rho_factorization 120_summary_statistics
"""
ALL_PROBLEMS = frozenset(_NAMES.split())
"""The full names of the 105 problems on the hub."""
_FIRST_IDS = frozenset({1, 3, 4, *range(6, 27), *range(28, 42), *range(44, 59), 60})
FIRST_PAPER = frozenset(
    name for name in ALL_PROBLEMS if int(name.partition("_")[0]) in _FIRST_IDS
)
"""The full names of the 54 problems of the first version of the paper."""


def expected_problems(names: Iterable[str]) -> frozenset[str]:
    """Return the published set that ``names`` are from; ``names`` if they are other problems."""
    names = frozenset(names)
    for published in (FIRST_PAPER, ALL_PROBLEMS):
        if names <= published:
            return published
    return names


def describe_problems(names: Iterable[str]) -> str:
    """Name a set of problems in a word."""
    names = frozenset(names)
    if names == ALL_PROBLEMS:
        return "all 105"
    if names == FIRST_PAPER:
        return "the 54 of the first paper"
    return quantity(len(names), "problem")


TABLE_3 = """
closed,GPT-4,,61.85,54.72,0.39,0.00
closed,GPT-3.5-Turbo,,58.98,46.48,1.74,1.57
unknown data,Deepseek-Coder-Instruct,33b,53.06,43.89,1.53,1.26
unknown data,Deepseek-Coder-Instruct,6.7b,33.89,33.61,0.19,0.44
unknown data,Deepseek-Coder-Instruct,1.3b,25.83,18.33,1.02,0.44
open,EditCoder,33b,50.19,40.21,0.48,0.00
open,EditCoder,6.7b,52.59,38.46,0.40,0.03
open,EditCoder,1.3b,30.50,25.06,2.04,1.89
open,CodeLlama-Instruct,34b,35.00,26.76,0.37,0.67
open,CodeLlama-Instruct,13b,28.33,20.19,2.52,0.00
open,CodeLlama-Instruct,7b,33.89,27.04,0.12,0.18
open,Deepseek-Coder-Base,33b,32.37,23.26,0.39,0.52
open,Deepseek-Coder-Base,6.7b,28.43,22.95,2.00,0.00
open,Deepseek-Coder-Base,1.3b,0.37,1.11,1.00,24.00
open,StarCoder,15b,37.31,29.16,0.67,1.23
open,StarCoderBase,15b,38.24,26.38,1.70,1.48
open,StarCoderBase,7b,40.64,25.83,0.92,0.15
open,StarCoderBase,3b,19.62,12.78,1.13,0.00
open,StarCoderBase,1b,8.70,9.07,2.00,0.00
open,OctoCoder,15b,31.46,25.69,0.23,0.17
""".strip().splitlines()
"""Table 3 of the first paper, as printed: what is known of the training data, model, size, pass@1
for descriptive and lazy instructions, and ExcessCode *v1* for both, on 54 problems."""
