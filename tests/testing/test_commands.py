"""One file of tests in the commands of whole suites, and options by which runners report."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from swe_retry.frameworks import Runner
from swe_retry.frameworks.commands import (
    file_command,
    find_runner,
    reporting_command,
    takes_arguments,
    whole_suite,
)
from swe_retry.frameworks.support import BaseTree
from swe_retry.instances.instance import TestSetup, bare_setup

SCRIPTS = {
    "test": "jest --ci",
    "unit": "mocha --timeout 8000 -r ts-node/register 'test/**/*.js'",
    "pretest:v": "npm run build",
    "test:v": "vitest run src",
    "v": "cross-env NODE_ENV=test vitest run",
    "lint": "eslint .",
    "all": "npm run lint && npm run v",
}
FILES = {
    "go.mod": "module example.org/x",
    "sub/go.mod": "module example.org/x/sub",
    "Cargo.toml": '[package]\nname = "thing"\n\n[lib]\nname = "other"\n',
    "crates/a/Cargo.toml": '[package]\nversion = "1"\nname = "crate-a"\n',
    "src/lib.rs": "",
    "crates/a/src/lib.rs": "",
    "tests/all/main.rs": "",
    "pom.xml": "",
    "core/pom.xml": "",
    "build.gradle": "",
    "app/core/build.gradle.kts": "",
    "app/core/src/test/kotlin/FooTest.kt": "package org.ex.foo\n\nclass FooTest\n",
    "package.json": json.dumps({"scripts": SCRIPTS}),
    "composer.json": json.dumps({"scripts": {"test": ["@php vendor/bin/phpunit"]}}),
}
TREE = BaseTree(FILES, FILES.get)
_FOUND = "-DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false"

# Command, test file, and the command that runs the file: None for the whole suite only.
ONE_FILE: list[tuple[str, str, str | None]] = [
    ("go test -v ./...", "pkg/a/x_test.go", "go test -v ./pkg/a"),
    (
        "A=1 go test -json -run X ./... || true",
        "a_test.go",
        "A=1 go test -json -run X . || true",
    ),
    ("go test ./...", "sub/b/c_test.go", "cd sub && go test ./b"),
    ("cd sub && go test ./...", "sub/b/c_test.go", "cd sub && go test ./b"),
    ("cd sub && go test ./...", "b/c_test.go", None),
    (
        "go vet . && go test -tags 'a b' . | tee x",
        "a b/c_test.go",
        "go vet . && go test -tags 'a b' './a b' | tee x",
    ),
    ("go test $(go list ./... | grep -v e2e)", "a_test.go", None),
    ("go test ./a && go test ./b", "a/a_test.go", None),
    (
        "cargo test --all --features full -- --nocapture",
        "tests/it.rs",
        "cargo test --features full -p thing --test it -- --nocapture",
    ),
    ("cargo test", "tests/all/deep/x.rs", "cargo test -p thing --test all deep::x::"),
    ("cargo test", "tests/by/test_cp.rs", "cargo test -p thing test_cp::"),
    (
        "cargo test --workspace",
        "crates/a/src/b/c.rs",
        "cargo test -p crate-a --lib b::c::",
    ),
    ("cargo test", "src/b/mod.rs", "cargo test -p thing --lib b::"),
    ("cargo test", "src/b/tests.rs", "cargo test -p thing --lib b::"),
    ("cargo test", "src/lib.rs", "cargo test -p thing --lib"),
    ("cargo test", "src/b;id/c.rs", None),
    (
        "mvn -B clean test",
        "core/src/test/java/org/ex/FooTest.java",
        f"mvn -B clean test -pl core -am -Dtest='FooTest,FooTest$*' {_FOUND}",
    ),
    (
        "./mvnw verify -Dtest=A",
        "src/test/java/FooTest.java",
        f"./mvnw verify -Dtest='FooTest,FooTest$*' {_FOUND}",
    ),
    ("mvn compile", "src/test/java/FooTest.java", None),
    (
        "./gradlew clean test --max-workers 8",
        "app/core/src/test/kotlin/FooTest.kt",
        "./gradlew clean :app:core:test --tests org.ex.foo.FooTest --max-workers 8",
    ),
    (
        "./gradlew test",
        "src/integrationTest/java/a/BTest.java",
        "./gradlew :integrationTest --tests BTest",
    ),
    ("npm test -- --verbose", "src/a.test.js", "npm test -- --verbose src/a.test.js"),
    ("npm ci && npm test", "a.test.js", "npm ci && npm test -- a.test.js"),
    ("npx jest --ci src", "src/[id].test.js", r"npx jest --ci 'src/\[id\].test.js'"),
    (
        "npm run unit",
        "test/a.js",
        'PATH="$PWD/node_modules/.bin:$PATH" mocha --timeout 8000 -r ts-node/register test/a.js',
    ),
    ("npm run test:v", "src/a.spec.ts", None),  # its pre-script builds
    ("yarn v", "src/a.spec.ts", "yarn v src/a.spec.ts"),
    ("npm run all", "src/a.spec.ts", None),
    ("npm test", "src/[id].test.js", None),  # npm 6 quotes with double quotes
    (
        "./node_modules/.bin/mocha test -R spec",
        "-x.js",
        "./node_modules/.bin/mocha -R spec ./-x.js",
    ),
    ("pnpm vitest run --coverage", "a.test.ts", "pnpm vitest run --coverage a.test.ts"),
    ("node --test", "a.test.mjs", "node --test a.test.mjs"),
    (
        "cd packages/x && npx jest",
        "packages/x/a.test.js",
        "cd packages/x && npx jest a.test.js",
    ),
    ("(cd x && npm ci); npx jest", "a.test.js", "(cd x && npm ci); npx jest a.test.js"),
    (
        "vendor/bin/phpunit --testdox tests",
        "tests/Foo Test.php",
        "vendor/bin/phpunit --testdox 'tests/Foo Test.php'",
    ),
    ("composer test", "tests/FooTest.php", "composer test -- tests/FooTest.php"),
    (
        "bundle exec rspec --no-color",
        "spec/a_spec.rb",
        "bundle exec rspec --no-color spec/a_spec.rb",
    ),
    (
        'rake test TESTOPTS="-v"',
        "test/test_a.rb",
        'rake test TESTOPTS="-v" TEST=test/test_a.rb',
    ),
    ("rake test", "test/t*_test.rb", None),  # rake would read a pattern
    ("bin/rails test", "test/a_test.rb", "bin/rails test test/a_test.rb"),
    (
        "bundle exec ruby -I test test/all.rb -v",
        "test/test_b.rb",
        "bundle exec ruby -I test test/test_b.rb -v",
    ),
    ("cmake --build b && ctest --test-dir b -V", "test/a.cc", None),
    ("bash /home/run.sh", "a.test.js", None),
    ("bash -c 'go test ./...'", "a_test.go", None),
    ("cat <<E | npx jest\nE", "a.test.js", None),
]


@pytest.mark.parametrize(("command", "path", "expected"), ONE_FILE)
def test_a_file_is_run_with_the_command_of_the_suite(
    command: str, path: str, expected: str | None
) -> None:
    runner = find_runner(command, "", FILES.get)
    assert file_command(command, runner, path, TREE) == expected


SUITES = {
    "go test ./...": "go test -v ./...",
    "go test -json ./...": "go test -json ./...",
    "cargo test -- --nocapture": "cargo test --no-fail-fast -- --nocapture",
    "npm test": "npm test -- --verbose",
    "yarn v": "yarn v --reporter=verbose",
    "npm run unit": "npm run unit -- --reporter spec",
    "npm run test:v && npm run lint": "npm run test:v && npm run lint",
    "composer test": "composer test -- --testdox",
    "rspec": "rspec --format json",
    "rake test": "rake test TESTOPTS=-v",
    "bin/rails test": "bin/rails test -v",
    "./gradlew test": "./gradlew test --continue",
    "mvn test": "mvn test -Dmaven.test.failure.ignore=true",
    "pytest": "pytest",
    "make test": "make test",
}


def test_runners_are_told_to_report_each_test() -> None:
    for command, expected in SUITES.items():
        runner = find_runner(command, "", FILES.get)
        assert reporting_command(command, runner, FILES.get) == expected


def test_the_runner_is_found_by_command_script_or_parser() -> None:
    installing = "apt-get install ruby && npm install jest && make check"
    for command, parser, runner in (
        ("make check", "parse_log_gotest", Runner.GO),
        ("bash run.sh", "parse_java_mvn", Runner.MAVEN),
        ("bash run.sh", "", Runner.SCRIPT),
        (installing, "", Runner.SCRIPT),
        ("npm run all", "", Runner.VITEST),
        ("python -m pytest", "parse_log_jest", Runner.PYTEST),
    ):
        assert find_runner(command, parser, FILES.get) is runner, command


HOSTILE = [
    "a$(>HACKED)_test.go",
    "a`>HACKED`_test.go",
    "a;>HACKED;_test.go",
    "a'\";>HACKED #_test.go",
    "a\n>HACKED\n_test.go",
    "-exec=>HACKED_test.go",
    "a&&>HACKED|_test.go",
    "$(>HACKED)/b_test.go",
    "a\\$(>HACKED)_test.go",
]
# Every program is missing, so that only the shell itself could make a file.
NO_PROGRAMS = "PATH=/nowhere; command_not_found_handle() { :; }; cd() { :; }\n"


WITH_A_FILE = {command for command, _, expected in ONE_FILE if expected}


@pytest.mark.parametrize("command", sorted(WITH_A_FILE))
def test_the_name_of_a_file_never_runs(command: str, tmp_path: Path) -> None:
    runner = find_runner(command, "", FILES.get)
    script = NO_PROGRAMS
    for name in HOSTILE:
        for folder in ("", "tests/", "src/test/java/"):
            line = file_command(command, runner, f"{folder}{name}", TREE)
            if line:
                line, _, _ = line.partition(" | tee")
                assert "\n" not in line
                script += f"{line}\n"
    subprocess.run(["/bin/bash", "-c", script], cwd=tmp_path, capture_output=True)
    assert not list(tmp_path.iterdir())


# Of the forms in public scripts of evaluation, with names that are not theirs.
WITHOUT_SELECTION = {
    'go test -v ./pkg/a -run "^TestSecret"': "go test -v ./...",
    "RUSTFLAGS=-Awarnings cargo test --package a --lib -- secret::tests": (
        "RUSTFLAGS=-Awarnings cargo test"
    ),
    "SECRET=1 cargo test --features full --test secret --no-fail-fast": (
        "cargo test --features full --no-fail-fast"
    ),
    "mvnd test -B -T 1C -pl secret -Dtest=org.ex.SecretTest#a": "mvnd test -B -T 1C",
    "./gradlew test --tests org.ex.SecretTest": "./gradlew test",
    "vendor/bin/phpunit --testdox --colors=never tests/SecretTest.php --filter 'a'": (
        "vendor/bin/phpunit --testdox --colors=never"
    ),
    "bundle exec rspec spec/secret_spec.rb --no-color --format json | jq '.[]'": (
        "bundle exec rspec --no-color --format json"
    ),
    'yarn jest packages/secret -t "secret" --verbose': "yarn jest --verbose",
    "npx mocha test/secret.js -R tap -g 'secret'": "npx mocha -R tap",
    "ctest --test-dir build -V -R secret-test": "ctest --test-dir build -V",
    "./runtest --single unit/secret": None,
    "bash -c 'npx jest secret'": None,
    "npx jest secret && npx jest other": None,
}


def test_nothing_that_selects_tests_is_taken_over() -> None:
    for command, suite in WITHOUT_SELECTION.items():
        assert whole_suite(command) == suite, command


SCRIPT = """cd /testbed
git checkout abc -- src/SecretTest.java
git apply -v - <<'EOF'
+class SecretTest {}
EOF
cargo test secret --no-run
make build
: '>>>>> Start Test Output'
mvnd test -B -pl core -Dtest=org.ex.SecretTest#a
COMMAND
: '>>>>> End Test Output'
"""


def test_an_evaluation_script_gives_set_up_and_whole_suite() -> None:
    hidden = ["src/SecretTest.java"]
    maven = "mvnd test -B -pl core -Dtest=org.ex.SecretTest#b"
    setup = ("cd /testbed", "make build")
    expected = TestSetup(setup, "mvnd test -B")
    assert bare_setup(SCRIPT.replace("COMMAND", maven), hidden) == expected
    single = SCRIPT.replace("COMMAND", "./runtest --single secret")
    assert bare_setup(single, hidden) is None


def test_whether_arguments_reach_the_runner() -> None:
    reaching = (
        "pytest",
        "CI=1 python3.9 -m pytest -q tests",
        ".venv/bin/pytest -x",
        "tox",
    )
    others = (
        "python manage.py test",
        "pytest && true",
        "pytest | tee log",
        'sh -c "pytest -q"',
        "make test",
    )
    for command in reaching:
        assert takes_arguments(command, Runner.PYTEST), command
    for command in others:
        assert not takes_arguments(command, Runner.PYTEST), command
