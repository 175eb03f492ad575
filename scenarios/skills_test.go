package scenarios

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
)

// Every skill of the repository is well formed, generated blocks and commands
// included.
func TestSkillsOfTheRepository(t *testing.T) {
	tree, err := readSkills("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.skills) < 5 || !tree.targets["check"] {
		t.Fatalf("%d skills, make targets %v", len(tree.skills), tree.targets)
	}
	for _, p := range tree.check() {
		t.Error(p)
	}
}

// skillsIn is a source tree with one scenario and its generated skill.
func skillsIn(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	source := strings.NewReplacer("      STEPS\n", "", "GUARD", "1").Replace(small)
	text := "---\nname: small\ndescription: Something small. Use in tests.\n---\n# Small\n\n```bash\nscenario lint small\nister admin topics create /default/$i | wc -l > OUT\n```\n\n"
	for _, b := range skillBlocks {
		text += blockBegin(b.name) + "\n" + blockEnd(b.name) + "\n"
	}
	for name, data := range map[string]string{"small/" + specFile: source, "small/" + skillFile: text, "Makefile": "check: fmt\nfmt:\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, errOut := scenario(t, fakecluster.Setup{}, "skills", "gen", "--root", root); code != 0 || out != "small/SKILL.md\n" {
		t.Fatalf("gen: exit %d, %s%s", code, out, errOut)
	}
	if code, out, errOut := scenario(t, fakecluster.Setup{}, "skills", "check", "--root", root); code != 0 || out != "1 skill is fine\n" {
		t.Fatalf("check: exit %d, %s%s", code, out, errOut)
	}
	return root
}

func TestSkillsGenIsStable(t *testing.T) {
	root := skillsIn(t)
	if code, out, _ := scenario(t, fakecluster.Setup{}, "skills", "gen", "--root", root); code != 0 || out != "" {
		t.Errorf("exit %d, wrote %s", code, out)
	}
	text, err := os.ReadFile(filepath.Join(root, "small", skillFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| lost | `== 0` | only |",
		"records were acknowledged (`>= 1`)",
		"| `ister admin topics create /default/small --dispatch-strategy reliable --partitions 1` | `small_topic` |",
		"`small_sent`, `small_stop`, `small_verify` | `acked >= 1`, `acked_missing == 0` |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestSkillsCheckFindsMistakes(t *testing.T) {
	for _, c := range []struct{ name, file, old, new, want string }{
		{"another name", skillFile, "name: small", "name: large", `small/SKILL.md:2:1: front matter: name is "large", the directory "small"`},
		{"no description", skillFile, "description: Something small. Use in tests.\n", "", `key "description" is missing`},
		{"long description", skillFile, "Use in tests.", strings.Repeat("x", 1024), "must be text of 1 to 1024 characters"},
		{"another key", skillFile, "name: small", "name: small\nlicence: MIT", `unknown key "licence" (did you mean license?)`},
		{"no front matter", skillFile, "---\nname", "name", "there is no front matter"},
		{"too long", skillFile, "# Small\n", "# Small\n" + strings.Repeat("\n", 150), "want at most 150"},
		{"edited by hand", skillFile, "| lost |", "| found |", "want | lost | `== 0` | only | (run: scenario skills gen)"},
		{"changed scenario", specFile, "title: lost", "title: gone", "want | gone |"},
		{"no block", skillFile, "<!-- END steps -->", "", "there is no generated block steps"},
		{"unknown command", skillFile, "scenario lint", "scenario lynt", "there is no command `scenario lynt small`"},
		{"unknown flag", skillFile, "scenario lint", "scenario lint --fromat json", "`scenario lint` has no flag --fromat"},
		{"bad value", skillFile, "scenario lint small", "scenario verify --legal many last", "flag --legal: "},
		{"no value", skillFile, "scenario lint small", "scenario lint --format", "flag --format needs a value"},
		{"too few arguments", skillFile, "scenario lint small", "scenario show", "scenario show takes SCENARIO, got 0"},
		{"no such scenario", skillFile, "scenario lint small", "go run ./cmd/scenario run smal", "there is no scenario smal"},
		{"admin command in a loop", skillFile, "scenario lint small", "for i in 1; do ister admin topics mvoe x; done", "there is no command `admin topics mvoe x`"},
		{"admin command in running text", skillFile, "# Small\n", "# Small\nSee `ister admin brokers lisst`.\n", "there is no command `admin brokers lisst`"},
		{"unknown subcommand of ister", skillFile, "scenario lint small", "ister brokr", "ister has no command brokr"},
		{"unknown target", skillFile, "scenario lint small", "make chek", "the Makefile has no target chek"},
		{"dead link", skillFile, "# Small\n", "# Small\nSee [this](gone.md#a).\n", "small/SKILL.md:6:1: the link gone.md#a leads nowhere"},
		{"no such file", skillFile, "# Small\n", "# Small\nSee `docs/gone.md`.\n", "there is no file docs/gone.md"},
		{"no such step tool", skillFile, "# Small\n", "# Small\nCall `small_topik`.\n", "there is no MCP tool small_topik (did you mean small_topic?)"},
		{"wait for time", skillFile, "# Small\n", "# Small\n## By hand\n```bash\nsleep 5\n```\n", "small/SKILL.md:8:1: it waits for time to pass"},
		{"bad statement", skillFile, "# Small\n", "# Small\n## By hand\n```bash\ntrue # expect: exit x\n```\n", "small/SKILL.md:8:1: expect: exit x is not a status"},
		{"bad need", skillFile, "# Small\n", "# Small\n## By hand\n```bash wants=docker\ntrue\n```\n", `small/SKILL.md:7:1: the block's word "wants=docker" is not known`},
		{"broken scenario", specFile, "risk: additive", "risk: aditive", "did you mean additive?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := skillsIn(t)
			file := filepath.Join(root, "small", c.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), c.old) {
				t.Fatalf("no %q in %s", c.old, text)
			}
			if err := os.WriteFile(file, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			if code, out, _ := scenario(t, fakecluster.Setup{}, "skills", "check", "--root", root); code != 2 || !strings.Contains(out, c.want) {
				t.Errorf("exit %d, want %s\n%s", code, c.want, out)
			}
		})
	}
}

func TestShellCommands(t *testing.T) {
	for line, want := range map[string]string{
		"a b # c":         "a b",
		`a "b # c" 'd;e'`: "a b # c d;e",
		"for i in $(seq 12); do x $i > f; done | y": "seq 12/for i in $OPEN/x $i/y",
		"x --id <node id> 2>&1 && y || z &":         "x --id OPEN/y/z",
		`echo "k$((i % 8)):$i"; A=1 b`:              "echo k$((i % 8)):$i/A=1 b",
		"":                                          "",
	} {
		var got []string
		for _, words := range shellCommands(line) {
			got = append(got, strings.Join(words, " "))
		}
		if strings.Join(got, "/") != want {
			t.Errorf("%q: %q, want %q", line, strings.Join(got, "/"), want)
		}
	}
}

// Every setup and client has a skill, and the top one's table leads to all.
func TestSkillsCheckWantsOneForEachSetupAndClient(t *testing.T) {
	root := skillsIn(t)
	for name, text := range map[string]string{
		"setups/one/one.go":        "package one\n\nfunc (Setup) Name() string { return \"one\" }\n",
		"setups/none/none.go":      "package none\n",
		"clients/kcat/run.sh":      "",
		"go.mod":                   "module example.com/small-ister\n",
		skillFile:                  "---\nname: small-ister\ndescription: All. Use it.\n---\n" + blockBegin(topBlock) + "\n" + blockEnd(topBlock) + "\n",
		"scenarios/a/" + skillFile: "---\nname: a\ndescription: Do a thing. Use it.\n---\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, out, _ := scenario(t, fakecluster.Setup{}, "skills", "check", "--root", root)
	for _, want := range []string{"setups/one:1:1: there is no SKILL.md in it", "clients/kcat:1:1: there is no SKILL.md in it", ".agents/skills/small:1:1: it should be a link to ../../small (run: scenario skills gen)", "SKILL.md:6:1: a generated block is not what it is made from now: want | What | Skill |"} {
		if code != 2 || !strings.Contains(out, want) {
			t.Errorf("exit %d, want %s\n%s", code, want, out)
		}
	}
	if strings.Contains(out, "setups/none") {
		t.Errorf("no setup is wanted to have a skill:\n%s", out)
	}
	if code, out, _ = scenario(t, fakecluster.Setup{}, "skills", "gen", "--root", root); code != 0 || out != "SKILL.md\n.agents/skills/a\n.agents/skills/small\n.agents/skills/small-ister/SKILL.md\n.claude/skills\n" {
		t.Errorf("gen: exit %d, %s", code, out)
	}
	text, err := os.ReadFile(filepath.Join(root, skillFile))
	if want := "| Do a thing | `scenarios/a/SKILL.md` |\n| Something small | `small/SKILL.md` |\n"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, want %s in\n%s", err, want, text)
	}
}

func TestSkillsLinksThatLeadNowhereAreFound(t *testing.T) {
	root := skillsIn(t)
	top := "---\nname: ister\ndescription: All. Use it.\n---\n" + blockBegin(topBlock) + "\n" + blockEnd(topBlock) + "\n"
	if err := os.WriteFile(filepath.Join(root, skillFile), []byte(top), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/ister\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := scenario(t, fakecluster.Setup{}, "skills", "gen", "--root", root); code != 0 {
		t.Fatalf("gen: exit %d, %s", code, errOut)
	}
	if code, out, _ := scenario(t, fakecluster.Setup{}, "skills", "check", "--root", root); code != 0 {
		t.Fatalf("check: exit %d, %s", code, out)
	}
	for _, link := range []string{agentSkills + "/small", claudeSkills} {
		if text, err := os.ReadFile(filepath.Join(root, link, map[bool]string{true: "small", false: ""}[link == claudeSkills], skillFile)); err != nil || !strings.HasPrefix(string(text), "---\nname: small\n") {
			t.Errorf("%s: %v, %s", link, err, text)
		}
	}
	if err := os.Symlink("../../gone", filepath.Join(root, agentSkills, "gone")); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := scenario(t, fakecluster.Setup{}, "skills", "check", "--root", root); code != 2 || !strings.Contains(out, ".agents/skills/gone:1:1: there is no such skill (remove it)") {
		t.Errorf("check: exit %d, %s", code, out)
	}
}

// What is installed is what a checkout has: the top skill's table leads to files
// that are there.
func TestSkillsInstall(t *testing.T) {
	to := t.TempDir()
	install := func(more ...string) (int, string) {
		code, out, errOut := scenario(t, fakecluster.Setup{}, append([]string{"skills", "install", "--to", to}, more...)...)
		return code, out + errOut
	}
	if code, out := install(); code != 0 || !strings.Contains(out, " 0 as they were, ") {
		t.Fatalf("exit %d, %s", code, out)
	}
	top, err := os.ReadFile(filepath.Join(to, "ister", skillFile))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("\\| `([^`]+/SKILL.md)` \\|").FindAllStringSubmatch(string(top), -1)
	for _, row := range rows {
		if _, err := os.Stat(filepath.Join(to, "ister", row[1])); err != nil {
			t.Error(err)
		}
	}
	if len(rows) < 10 {
		t.Errorf("the top skill leads to %d", len(rows))
	}
	if info, err := os.Stat(filepath.Join(to, "ister/clients/kcat/roundtrip.sh")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the script cannot be run: %v", err)
	}
	if code, out := install(); code != 0 || !strings.Contains(out, ": 0 files written, ") {
		t.Errorf("again: exit %d, %s", code, out)
	}
	changed := filepath.Join(to, "ister/mcp", skillFile)
	if err := os.WriteFile(changed, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out := install(); code != 2 || !strings.Contains(out, "different from this binary's: mcp/SKILL.md") {
		t.Errorf("changed: exit %d, %s", code, out)
	}
	if code, out := install("--force"); code != 0 || !strings.Contains(out, ": 1 files written, ") {
		t.Errorf("force: exit %d, %s", code, out)
	}
	if err := os.WriteFile(filepath.Join(to, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := scenario(t, fakecluster.Setup{}, "skills", "install", "--to", filepath.Join(to, "file")); code != 4 {
		t.Errorf("below a file: exit %d, %s%s", code, out, errOut)
	}
}
