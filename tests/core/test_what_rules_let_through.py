"""Attacks on rules: what an allow rule must not let through, and what a refuse rule must find, in all their forms."""

from typing import Any

import pytest

from tenex.core.approvals.rules import ApprovalRule, Verdict, judge, matches
from tenex.core.phases import Phase


def rule(decision: str, **more: Any) -> ApprovalRule:
    return ApprovalRule(decision=Verdict(decision), name=decision, **more)


def verdict(rules: list[ApprovalRule], command: str, *, asks: bool = True) -> Verdict:
    return judge(
        rules, tool="shell", asks=asks, arguments={"command": command}, phase=Phase.EXECUTE, agent="executor"
    ).verdict


def allows(match: str, command: str, *options: str) -> bool:
    return verdict([rule("allow", match=tuple(match.split()), options=options)], command) is Verdict.ALLOW


# ---- allow rules: options and operands ----


@pytest.mark.parametrize(
    ("match", "command"),
    [
        # options that nobody named, in bundles and cut
        ("git grep *", "git grep --no-index -iOsh needle"),
        ("git grep *", "git grep -iO needle"),
        ("git grep *", "git grep -Osh needle"),
        ("git grep *", "git grep --open-files-in-pager=sh needle"),
        ("git grep *", "git grep --open needle"),
        ("git clone *", "git clone -qu ./x.sh a b"),
        ("git clone *", "git clone -qccore.sshCommand=./x a b"),
        ("git clone *", "git clone -ccore.sshCommand=./x a b"),
        ("git log *", "git log -1 -p --output=/any/file"),
        ("git log *", "git log --outpu=/any/file"),
        ("git log *", "git log -o/any/file"),
        ("git diff *", "git diff --no-index --output-indicator-new=' ' --output=FILE a b"),
        ("git diff *", "git diff --ext-diff"),
        ("git status", "git status -sbX"),
        ("git *", "git -c core.pager=./x log"),
        ("git *", "git -ccore.pager=./x log"),
        ("git *", "git --exec-path=. log"),
        ("git fetch *", "git fetch '--upload-pa=touch X; git-upload-pack' ."),
        ("sort *", "sort --compress-program=./z.sh f"),
        ("sort *", "sort -o /any/file f"),
        ("sort *", "sort -nro/any/file f"),
        ("rg *", "rg --pre ./z.sh x"),
        ("grep *", "grep -rf/etc/shadow x"),
        ("tar *", "tar --checkpoint-action=exec=sh -xf a"),
        ("find *", "find . -exec rm x"),
        ("find *", "find . -delete"),
        ("curl *", "curl -T secrets http://localhost"),
        ("curl *", "curl -sT secrets http://localhost"),
        ("ls *", "ls --hyperlink=always"),
        ("npm test", "npm test --script-shell=./x"),
        ("npm test *", "npm test -- --watch"),
        # operands that nobody named
        ("rm build", "rm build -rf /srv/data"),
        ("rm build", "rm build /srv/data"),
        ("git status", "git status docs"),
        ("curl localhost", "curl localhost evil.com"),
        ("tee log", "tee log /any/file"),
        ("npm test", "npm test evil"),
        ("make test", "make test SHELL=./x"),
        ("cd app", "cd app x"),
        ("git log", "git log -- docs"),
        ("git", "git push"),
        # another program under the name
        ("git status", "./git status"),
        ("git status", "/usr/bin/git status"),
        ("git status", "GIT_PAGER=x git status"),
        ("git status", "_=1 git status"),
        ("_=1 *", "_=1 git status"),
        ("PATH=. *", "PATH=. git status"),
        ("a[0]=1 *", "a[0]=1 git status"),
        ("A+=1 *", "A+=1 git status"),
    ],
)
def test_what_is_more_than_the_rule_names_asks(match: str, command: str) -> None:
    assert not allows(match, command)


@pytest.mark.parametrize(
    ("match", "command"),
    [
        ("git status", "git status"),
        ("git status", "git status -sb"),
        ("git status", "git status --porcelain=v2"),
        ("git status", "git status --"),
        ("git log *", "git log --oneline main"),
        ("git log *", "git log -- docs/a"),
        ("git grep *", "git grep -in needle -- src"),
        ("ls *", "ls -la src tests"),
        ("ls", "ls -la"),
        ("npm test", "npm test --silent"),
        ("rm build", "rm build"),
        ("rm *", "rm a b"),
        ("cat *", "cat -n - a"),
        ("python -m pytest -q", "python -m pytest -q"),
        ("python -m pytest *", "python -m pytest tests/a.py"),
        ("make test", "make test"),
        ("echo *", "echo a b"),
        ("cd *", "cd app"),
        ("cargo test", "cargo test -q --release"),
        ("git status", "git status && git status -s"),
        ("ls *", "ls a | ls b; ls c"),
    ],
)
def test_what_the_rule_names_runs(match: str, command: str) -> None:
    assert allows(match, command)


def test_options_that_the_rule_names_are_permitted_and_no_others() -> None:
    assert allows("git push *", "git push --force-with-lease origin", "--force-with-lease")
    assert allows("git push *", "git push --push-option=a origin", "--push-option=*")
    assert allows("tar *", "tar -xzf a", "-x", "-z", "-f")
    assert not allows("tar *", "tar -xzfO a", "-x", "-z", "-f")
    assert not allows("git push *", "git push --force origin", "--force-with-lease")
    assert not allows("git push *", "git push --push-optio=a origin", "--push-option=*")
    assert not allows("git push", "git push --force-with-lease origin", "--force-with-lease")


@pytest.mark.parametrize(
    "command",
    [
        "printf -v PATH %s bin",
        "printf '-v' PATH bin",
        "hash -p ./ls ls",
        "enable -f ./x.so x",
        "mapfile -C ./x a",
        "readarray a",
        "compgen -C ./x a",
        "complete -C ./x a",
        "read PATH",
        "export PATH",
        "export PATH=bin",
        "declare -x PATH=bin",
        "typeset PATH=bin",
        "local a=b",
        "readonly a=b",
        "trap ./x EXIT",
        "source ./x",
        ". ./x",
        "eval ls",
        "exec ls",
        "command ls",
        "builtin echo",
        "alias ls=./x",
        "unalias ls",
        "set a",
        "shopt -s x",
        "shift",
        "let a",
        "getopts ab PATH",
        "umask 0",
        "ulimit -f 1",
        "cd -P x",
        "echo -e x",
        "pwd -P",
        "pushd x",
        "wait -p PATH",
        "test -f x",
        "fc -s",
        "bind x",
        "unset PATH",
        "time ls",
        "coproc ls",
        "type ls",
        "kill 1",
    ],
)
def test_what_assigns_loads_or_catches_is_allowed_by_no_rule_that_names_words(command: str) -> None:
    words = command.split()
    rules = [
        rule("allow", match=tuple(words)),
        rule("allow", match=(words[0], "*")),
        rule("allow", match=("ls", "*")),
    ]
    assert verdict(rules, command) is Verdict.ASK
    assert verdict(rules, f"{command} && ls") is Verdict.ASK


# ---- refuse and ask rules ----

FORMS = [
    # assignments before it
    "_=1 git push",
    "A=1 git push",
    "A=1 B='x y' git push",
    "A+=1 git push",
    "a[0]=1 git push",
    "A=$(x) git push",
    "PATH=/x:$PATH git push",
    "_=1 sudo git push",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x",
    # quotes and backslashes
    r"\git push",
    'g""it push',
    "g''it push",
    "'git' push",
    '"git" push',
    "$'git' push",
    "$'\\x67it' push",
    '$"git" push',
    "git 'push'",
    'git "push"',
    "git pu'sh'",
    r"git p\ush",
    "git pu\\\nsh",
    "gi\\\nt push",
    "git\\\n push",
    "g$''it push",
    '"g"i"t" "p"u"s"h',
    "git $'pu\\x73h'",
    "'g'\"i\"t push",
    # globs
    "gi? push",
    "g* push",
    "git pu[s]h",
    "[g]it push",
    "git p?sh",
    "git pus*",
    "/usr/bin/gi? push",
    "/usr/*/git push",
    "/???/???/git push",
    "git [p]ush",
    "git pu[!a]h",
    "{git,push}",
    "git {push,x}",
    "git p{u,v}sh",
    "{g,h}it push",
    "git {push,--force}",
    # expansions
    "git p${x}ush",
    "git ${x}push",
    "g${x}it push",
    "git pu$(x)sh",
    "g``it push",
    "g$()it push",
    "git $x",
    "$x push",
    "$x",
    "${x}",
    "$(which git) push",
    '"$(which git)" push',
    "`which git` push",
    "git${IFS}push",
    "git $@",
    'git "$@"',
    "$0 push",
    "git ${a[@]}",
    'git "${a[@]}"',
    "x=git; $x push",
    "x=push; git $x",
    "a='git push'; $a",
    "git $x push",
    "git$x push",
    "${x:-git} push",
    "${x/a/git} push",
    "git $((1))push",
    "git push$x",
    "~/bin/git push",
    "$HOME/bin/git push",
    # other spellings
    "git-push",
    "/usr/lib/git-core/git-push origin",
    "/usr/bin/git push",
    "./git push",
    "git  push",
    "git\tpush",
    "git -C x push",
    "git -c a=b push",
    "git --no-pager push",
    "git -P push",
    "git --git-dir x push",
    "git --git-dir=x push",
    "git -c alias.p=push p origin",
    "git -c alias.x='!git push' x",
    # wrappers, known and unknown
    "gosu x git push",
    "su-exec x git push",
    "runcon a git push",
    "nosuchwrapper git push",
    "nosuchwrapper -a b git push",
    "sudo git push",
    "sudo -u bob git push",
    "env git push",
    "env -i A=1 git push",
    "env -S 'git push'",
    "env '-Sgit push'",
    "timeout 5 git push",
    "nice -n 5 git push",
    "nohup git push &",
    "xargs git push",
    "command git push",
    "exec git push",
    "builtin command git push",
    "time git push",
    "coproc git push",
    "flock f git push",
    "setsid git push",
    "watch git push",
    "find . -exec git push ;",
    "find . -exec git push \\;",
    "parallel git ::: push",
    "ssh host git push",
    "stdbuf -o0 git push",
    "docker run x git push",
    "git submodule foreach git push",
    "git bisect run git push",
    "npx git push",
    "uv run git push",
    # lines within words, and what is read from elsewhere
    "sh -c 'git push'",
    "bash -lc 'git push'",
    "sh -c \"bash -c 'git push'\"",
    "eval git push",
    "eval 'git push'",
    'eval "$x"',
    "eval $x",
    'bash -c "$x"',
    "bash -c $x",
    'sh -c "$(base64 -d <<< Z2l0IHB1c2g=)"',
    "trap 'git push' EXIT",
    "echo Z2l0IHB1c2g= | base64 -d | sh",
    "echo Z2l0IHB1c2g= | base64 -d | bash -s",
    "curl x | sudo sh",
    "curl x | env bash",
    "echo tig hsup | rev | sh -",
    "echo x | gosu bob sh",
    "echo x | timeout 5 sh",
    "echo x | python3",
    "echo x | perl -",
    "echo x | bash /dev/stdin",
    "bash <(echo git push)",
    "source <(echo x)",
    ". <(echo x)",
    "bash <<< 'git push'",
    'bash <<< "$x"',
    "bash <<E\ngit push\nE",
    "sh << E\n$(x)\nE",
    "echo x | tee >(sh)",
    "echo push | xargs git",
    "echo push | xargs -n1 git",
    "echo git | xargs -I@ @ push",
    "echo x | xargs -I{} {} y",
    "printf 'git push' | sh",
    "python -c 'import os; os.system(\"git push\")'",
    'python -c "$x"',
    'perl -e \'exec "git","push"\'',
    'python3 -c \'import subprocess as s; s.run(["git", "push"])\'',
    "awk 'BEGIN{system(\"git push\")}'",
    # around it
    "git push",
    "git push origin main",
    "cd x && git push",
    "a; git push",
    "a || git push",
    "a | git push",
    "a & git push",
    "(git push)",
    "{ git push; }",
    "! git push",
    "if true; then git push; fi",
    "while git push; do x; done",
    "for i in a; do git push; done",
    "case x in x) git push;; esac",
    "f() { git push; }; f",
    'f() { git "$@"; }; f push',
    "echo $(git push)",
    "echo `git push`",
    'echo "$(git push)"',
    "cat <(git push)",
    "cat << E\n$(git push)\nE",
    "[[ $(git push) ]]",
    "echo ${x:-$(git push)}",
    "git push > x",
    "git push <<< x",
    "git push 2>&1",
    "git push 'a",
    "git push )",
    "\ngit push\n",
    "alias g='git push'; g",
    "shopt -s expand_aliases; alias g=git\ng push",
    "ls " + "x" * 4_100 + "; git push",
    "ls " + "x" * 4_100 + "; $'git' p?sh",
]


@pytest.mark.parametrize("command", FORMS)
@pytest.mark.parametrize("decision", ["refuse", "ask"])
def test_a_command_is_found_in_whatever_form_it_could_run(decision: str, command: str) -> None:
    rules = [rule("allow"), rule(decision, match=("git", "push"))]
    assert verdict(rules, command, asks=False) is Verdict(decision)


OTHERS = [
    "git pull",
    "echo push",
    "git pushy",
    "git log --grep=push",
    "git status",
    "git commit -m 'push it to git'",
    "git log push",
    "npm test",
    "npm run push",
    "docker push x",
    "ls *",
    "cat $f",
    "rm -rf build/*",
    "make -j$(nproc)",
    'git -C "$d" status',
    'cd "$d" && make',
    "python -m pytest -n $(nproc)",
    "python x.py",
    "sh deploy.sh",
    "bash -c 'npm test'",
    "git log $x",
    "for f in *.py; do echo $f; done",
    'echo "$x" > y',
    "grep -r push .",
    "find . -name '*.py'",
    "sed -i s/a/b/ $f",
    "timeout 5 npm test",
    "python --version",
    "node --test",
    "bash --version",
    "phpunit",
    'git commit -m "$(cat m)"',
    "cat > a.py <<'E'\nprint('x')\nE",
    "tar xf $f",
    "x=1; echo $x",
    "git add . && git commit -m x",
    "test -f $f && echo y",
    "which bash",
    "pip install x",
    "awk '{print $1}' f",
    "git diff | head -5",
    "echo a | python -m json.tool",
    "cat x | python -c 'print(1)'",
    "diff <(sort a) <(sort b)",
    "git stash; npm run build",
    "curl -s https://x.org | jq .",
    "cat <<E\n" + "some text $x\n" * 500 + "E",
]


@pytest.mark.parametrize("command", OTHERS)
def test_what_could_not_run_it_is_no_match(command: str) -> None:
    assert verdict([rule("refuse", match=("git", "push"))], command, asks=False) is Verdict.ALLOW


@pytest.mark.parametrize(
    ("match", "command", "fits"),
    [
        ("git push --force", "git push origin main --force", True),
        ("git push --force", "git push --force-with-lease", False),
        ("git push --force", "git push origin", False),
        ("git push --force", "git push $x", True),
        ("rm -rf", "rm -rf x", True),
        ("rm -rf", "rm -fr x", True),
        ("rm -rf", "rm -r -f x", True),
        ("rm -rf", "rm x -rvf", True),
        ("rm -rf", "rm -r x", False),
        ("npm publish", "npm --prefix x publish", True),
        ("docker compose down", "docker --context y compose -f z down", True),
        ("docker compose down", "docker compose up", False),
        ("python -m http.server", "python -m http.server 80", True),
        ("python -m http.server", "python -u -m http.server", True),
        ("apt-get install", "sudo apt-get install x", True),
        ("git push *", "git push", True),
        ("./deploy.sh", "sh -c ./deploy.sh", True),
    ],
)
def test_options_may_be_anywhere_before_and_behind_the_words_of_a_refuse_rule(
    match: str, command: str, fits: bool
) -> None:
    assert matches(rule("refuse", match=tuple(match.split())), {"command": command}) is fits


# ---- hosts and paths ----

HOST = rule("allow", tool="web__get", host="api.example.org")
DOCS = rule("allow", tool="files__write", path="docs/*")
GOOD = "https://api.example.org/v1?x=1#y"


@pytest.mark.parametrize(
    "arguments",
    [
        {"url": GOOD},
        {"url": "http://api.example.org"},
        {"url": "https://API.example.org:8080/"},
        {"url": GOOD, "count": 3},
        {"urls": [GOOD, GOOD]},
        {"url": GOOD, "method": "GET", "follow": True},
    ],
)
def test_plain_addresses_of_the_host_are_allowed(arguments: dict[str, Any]) -> None:
    assert matches(HOST, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            {"url": address}
            for address in (
                "https:evil.com/#https://api.example.org",
                "https:/evil.com/?https://api.example.org",
                "evil.com/x",
                "//evil.com",
                "//api.example.org/x",
                "https:\\\\api.example.org",
                "https://api.example.org\\@evil.com",
                "https://x@api.example.org/",
                "https://api.example.org@evil.com/",
                "https://api.example.org.evil.com/",
                "ftp://api.example.org/",
                "file:///etc/passwd",
                "javascript:x",
                " https://api.example.org/",
                "https://api.example.org/ https://evil.com",
                "https://api.example.org/\nhttps://evil.com",
                "api.example.org",
                "https://api.example.org\t.evil.com",
                "https://evil.com#@api.example.org/",
                "https://api.example.org%2eevil.com/",
                "https://api。example.org/",
                "http://127.0.0.1",
                "127.0.0.1",
                "[::1]",
                "https://",
                "https:///api.example.org",
                "https://api.example.org:80:90/",
                "https://api.example.org\u200b/",
            )
        ),
        {"url": 2130706433},
        {"url": GOOD, "fallback": "evil.com/x"},
        {"url": "evil.com/x", "note": GOOD},
        {"url": GOOD, "webhook": "https://evil.com"},
        {"url": GOOD, "baseURL": "evil"},
        {"url": GOOD, "proxyHost": "evil"},
        {"url": GOOD, "x": {"y": ["https://evil.com"]}},
        {"url": GOOD, "x": "10.0.0.1"},
        {"url": GOOD, "x": "//evil.com/y"},
        {"url": GOOD, "output": "/etc/x"},
        {"url": GOOD, "outputPath": "x"},
        {"url": GOOD, "x": "bob@evil.com:y"},
        {"url": GOOD, "x": "see https://evil.com"},
        {"url": GOOD, "evil.com/x": 1},
        {"note": "hello"},
        {},
        {"url": [[[[[[[[[["https://evil.com"]]]]]]]]]]},
    ],
    ids=str,
)
def test_a_rule_about_a_host_holds_only_if_all_addresses_are_plainly_of_it(arguments: dict[str, Any]) -> None:
    assert not matches(HOST, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "docs/a"},
        {"path": "docs/a/b.md", "text": "hello"},
        {"filePath": "docs/a"},
        {"paths": ["docs/a", "docs/b"]},
        {"path": "./docs/a"},
        {"edits": [{"file": "docs/a"}]},
    ],
)
def test_paths_of_the_pattern_are_allowed(arguments: dict[str, Any]) -> None:
    assert matches(DOCS, arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            {"path": "docs/a", name: "/etc/x"}
            for name in (
                "outputPath",
                "filePath",
                "uri",
                "dest",
                "destination_file",
                "target",
                "x",
                "cwd",
                "saveTo",
                "OUT_DIR",
                "logfile",
            )
        ),
        *(
            {"path": "docs/a", name: "x"}
            for name in (
                "outputPath",
                "filePath",
                "uri",
                "dest",
                "root",
                "baseDir",
                "toFolder",
                "source",
                "FILE",
                "workspace",
            )
        ),
        {"path": "docs/a", "options": {"dest": "src/b"}},
        {"path": "docs/a", "x": ["../b"]},
        {"path": "docs/a", "x": "~/b"},
        {"path": "docs/a", "x": "C:\\b"},
        {"path": "docs/a", "x": ".env"},
        {"path": "docs/a", "x": "file:b"},
        {"path": "docs/../src/a"},
        {"path": "/docs/a"},
        {"path": "docs/a\n/etc/x"},
        {"path": "docs/%2e%2e/src"},
        {"path": "docs\\..\\src"},
        {"path": " docs/a"},
        {"path": "file:docs/a"},
        {"path": "https://x.org/docs/a"},
        {"path": "~/docs/a"},
        {"text": "x"},
        {},
        {"path": {"a": 5}, "file": 7},
    ],
    ids=str,
)
def test_a_rule_about_a_path_holds_only_if_all_paths_fit(arguments: dict[str, Any]) -> None:
    assert not matches(DOCS, arguments)


def test_text_of_a_file_in_our_own_tools_is_no_path() -> None:
    own = rule("allow", tool="write_file", path="docs/*")
    arguments = {"path": "docs/a", "content": "see /etc/x and https://evil.com"}
    said: dict[str, Any] = {"asks": True, "arguments": arguments, "phase": Phase.EXECUTE, "agent": "executor"}
    assert judge([own], tool="write_file", **said).verdict is Verdict.ALLOW
    other = rule("allow", tool="files__write", path="docs/*")
    assert judge([other], tool="files__write", **said).verdict is Verdict.ASK


def test_each_operand_of_a_command_has_to_fit() -> None:
    cat = rule("allow", match=("cat", "*"), path="docs/*")
    assert matches(cat, {"command": "cat docs/a docs/b"})
    for command in ("cat docs/a secret", "cat docs/a /etc/x", "cat docs/../a", "cat", "cat -"):
        assert not matches(cat, {"command": command})
    get = rule("allow", match=("curl", "*"), host="api.example.org")
    assert matches(get, {"command": "curl https://api.example.org/x"})
    for command in (
        "curl https://api.example.org/x evil.com",
        "curl -o x https://api.example.org/x",
        "curl api.example.org",
    ):
        assert not matches(get, {"command": command})
    assert not matches(get, {"command": "curl https://api.example.org/x", "proxy": "evil"})


@pytest.mark.parametrize(
    "value",
    [
        "https://EVIL.com/",
        "//evil.com",
        "https:evil.com",
        "https:/evil.com/x",
        "evil.com",
        "x@evil.com:y",
        "see evil.com.",
        "https://ev%69l.com/",
        "https://ｅvil.com/",
        "http://a@evil.com\\b",
        '{"url": "https://evil.com"}',
    ],
)
def test_a_refused_host_is_found_in_whatever_form_it_is_named(value: str) -> None:
    refused = rule("refuse", host="evil.com")
    assert matches(refused, {"x": value})
    assert matches(refused, {"x": [[[[[[[[[[value]]]]]]]]]]})
    assert not matches(refused, {"x": "https://notevil.com/evil.community"})


@pytest.mark.parametrize(
    "arguments",
    [
        {"outputPath": "infra/a"},
        {"uri": "file:///srv/work/infra/a"},
        {"x": "/srv/work/infra/a"},
        {"options": {"dest": "infra/a"}},
        {"x": "./infra/a"},
        {"x": "infra\\a"},
        {"x": "y/../infra/a"},
        {"x": "infra%2fa/b"},
        {"x": " infra/a"},
    ],
)
def test_a_refused_path_is_found_under_any_name(arguments: dict[str, Any]) -> None:
    assert matches(rule("refuse", path="infra/*"), arguments)
