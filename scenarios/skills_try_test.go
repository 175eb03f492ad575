package scenarios

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ister-mq/ister/scenarios/internal/byhand"
	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
)

// byHand writes a skill whose section "By hand" has these lines, and a program
// that stands for ister.
func byHand(t *testing.T, lines ...string) (dir, ister string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "small")
	ister = filepath.Join(filepath.Dir(dir), "ister")
	text := "# Small\n\n## By hand\n\n```bash\n" + strings.Join(lines, "\n") + "\n```\n"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, skillFile), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ister, []byte("#!/bin/sh\necho ister \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	return dir, ister
}

func TestSkillsTryExitCodes(t *testing.T) {
	for _, c := range []struct {
		name, line string
		code       int
		want       []string
	}{
		{"holds", "ister health # expect: ister health", 0, []string{"ok ", "PASS: 1 of 1 skills with something by hand pass; 1 lines tried, 1 with a stated result; 0 lines not tried"}},
		{"the runner of the same binary", "scenario list # expect: ister scenario list", 0, nil},
		{"does not hold", "ister health # expect: ready", 1, []string{"SKILL.md:6: \"ready\" is not printed", "| ister health", "FAIL: 0 of 1"}},
		{"fails", "false", 6, []string{"SKILL.md:6: exit status 1, want 0", "ERROR: 0 of 1"}},
		{"cannot be read", "true # expect: exit x", 2, nil},
		{"needs what is not here", "```\n```bash needs=nosuchprogram\ntrue", 3, []string{"needs nosuchprogram", "0 of 1 skills with something by hand pass", "1 lines not tried"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, ister := byHand(t, c.line)
			code, out, errOut := scenario(t, fakecluster.Setup{}, "skills", "try", "--ister-bin", ister, dir)
			if code != c.code {
				t.Errorf("exit %d, want %d: %s%s", code, c.code, out, errOut)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "  ok") && len(line) > 101 {
					t.Errorf("a line of %d characters: %s", len(line), line)
				}
			}
			if entries, err := os.ReadDir(os.TempDir()); err != nil || len(entries) > 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
		})
	}
}

func TestSkillsTryAsJSON(t *testing.T) {
	dir, ister := byHand(t, "ister health # expect: ister health", "false")
	code, out, _ := scenario(t, fakecluster.Setup{}, "skills", "try", "--ister-bin", ister, "-o", "json", dir)
	var result tried
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code != 6 || result.ExitCode != 6 || result.Result != byhand.Broken || len(result.Skills[0].Lines) != 2 || !result.Skills[0].Lines[0].Checked {
		t.Errorf("exit %d, %+v", code, result)
	}
}

func TestSkillsTryRefusesWrongUsage(t *testing.T) {
	dir, ister := byHand(t, "true")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"nowhere", 2, "give a SKILL.md or a directory with one"},
		{"--timeout 0s " + dir, 2, "want more than 0"},
		{"--jobs 0 " + dir, 2, "--jobs is 0, want 1 to 16"},
		{"--ister-bin " + filepath.Dir(ister) + " " + dir, 4, "is not an executable file"},
	} {
		if code, _, errOut := scenario(t, fakecluster.Setup{}, append([]string{"skills", "try"}, strings.Fields(c.args)...)...); code != c.code || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: exit %d, %s; want %d, %s", c.args, code, errOut, c.code, c.want)
		}
	}
}

func TestSkillsTriedAtOnceAreInOrder(t *testing.T) {
	dir, ister := byHand(t, "echo $PWD")
	second := filepath.Join(filepath.Dir(dir), "second")
	if err := os.CopyFS(second, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	args := []string{"skills", "try", "--ister-bin", ister, "--jobs", "3", "-o", "json"}
	for range 3 {
		args = append(args, dir, second)
	}
	code, out, errOut := scenario(t, fakecluster.Setup{}, args...)
	var result tried
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || len(result.Skills) != 6 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errOut)
	}
	for i, r := range result.Skills {
		if want := []string{dir, second}[i%2]; r.State != byhand.Pass || r.File != want+"/"+skillFile {
			t.Errorf("%d: %+v", i, r)
		}
	}
}
