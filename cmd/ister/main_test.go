package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestEveryProductIsInTheBinary(t *testing.T) {
	var out, errOut bytes.Buffer
	if status := run(context.Background(), []string{"--help"}, &out, &errOut); status != 0 {
		t.Fatalf("status %d: %s", status, errOut.String())
	}
	for _, word := range []string{"broker", "admin", "scenario", "version", "completion"} {
		if !strings.Contains(out.String(), "\n  "+word+" ") {
			t.Errorf("help does not list %s:\n%s", word, out.String())
		}
	}
}

func TestWrongUsageExitsWithTwoAndSaysWhatToDo(t *testing.T) {
	for _, args := range [][]string{{"brokr"}, {"broker", "--datadir", "x"}, {"broker", "extra"}, {"admin", "clustr"}, {"version", "--loud"}} {
		var out, errOut bytes.Buffer
		if status := run(context.Background(), args, &out, &errOut); status != 2 || errOut.Len() == 0 {
			t.Errorf("%v: status %d, printed %q", args, status, errOut.String())
		}
	}
}

func TestBrokerHelpNamesEverySetting(t *testing.T) {
	var out, errOut bytes.Buffer
	run(context.Background(), []string{"broker", "--help"}, &out, &errOut)
	for _, flag := range []string{"--data-dir", "--broker-addr", "--admin-addr", "--raft-addr", "--prom-exporter", "--seed-nodes", "--join", "--config-file", "--node-id"} {
		if !strings.Contains(out.String(), flag) {
			t.Errorf("%s is missing", flag)
		}
	}
}

// pflag takes what is in backquotes for the name of the flag's value.
func TestValuesOfFlagsAreNamedInOneWord(t *testing.T) {
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, " ") {
				t.Errorf("%s --%s takes %q, expected one word", c.CommandPath(), f.Name, name)
			}
		})
		for _, child := range c.Commands() {
			look(child)
		}
	}
	look(newCommand())
}

func TestVersionPrintsOneLine(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		var out, errOut bytes.Buffer
		if status := run(context.Background(), args, &out, &errOut); status != 0 || strings.Count(out.String(), "\n") != 1 || !strings.HasPrefix(out.String(), "ister ") {
			t.Errorf("%v: status %d: %q", args, status, out.String())
		}
	}
}

// Only this binary has every command that skills name.
func TestSkillsOfTheRepositoryNameWhatThereIs(t *testing.T) {
	var out, errOut bytes.Buffer
	if status := run(context.Background(), []string{"scenario", "skills", "check", "--root", "../.."}, &out, &errOut); status != 0 {
		t.Errorf("status %d:\n%s%s", status, out.String(), errOut.String())
	}
}

func TestSkillsAreCheckedAgainstTheWholeBinary(t *testing.T) {
	root := t.TempDir()
	text := "---\nname: a\ndescription: A. Use it.\n---\n```bash\nister health --redy\nister broker --data-dri d1\nister mcp --htpp 1\nister health extra\n```\nCall `cluster_stats`.\n"
	if err := os.Mkdir(root+"/a", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root+"/a/SKILL.md", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	status := run(context.Background(), []string{"scenario", "skills", "check", "--root", root}, &out, &errOut)
	for _, want := range []string{
		"a/SKILL.md:6:1: `ister health` has no flag --redy", "a/SKILL.md:7:1: `ister broker` has no flag --data-dri", "a/SKILL.md:8:1: `ister mcp` has no flag --htpp",
		"a/SKILL.md:9:1: unknown command", "a/SKILL.md:11:1: there is no MCP tool cluster_stats (did you mean cluster_status?)",
	} {
		if status != 2 || !strings.Contains(out.String(), want) {
			t.Errorf("status %d, want %s in\n%s", status, want, out.String())
		}
	}
}

// TestScenarioHelpNamesWhatIsTyped: where only ister is installed there is no command
// called scenario.
func TestScenarioHelpNamesWhatIsTyped(t *testing.T) {
	var out, errOut strings.Builder
	if status := run(t.Context(), []string{"scenario", "run", "--help"}, &out, &errOut); status != 0 || !strings.Contains(out.String(), "\n  ister scenario run SCENARIO") {
		t.Errorf("status %d: %s%s", status, out.String(), errOut.String())
	}
}
