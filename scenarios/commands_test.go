package scenarios

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/cli"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// Every command that a skill or a verb tells people to type is one that the
// command tree has, with flags that it has.
func TestCommandsThatPeopleAreToldExist(t *testing.T) {
	admin := regexp.MustCompile(`ister admin ([a-z][^|#;&)\x60\n]*)`)
	for _, name := range shippedNames() {
		data, err := os.ReadFile(name + "/SKILL.md")
		if err != nil {
			t.Fatal(err)
		}
		found := admin.FindAllStringSubmatch(string(data), -1)
		if len(found) < 5 {
			t.Errorf("%s: only %d commands were found", name, len(found))
		}
		for _, match := range found {
			checkCommand(t, name, cli.NewCommand(), strings.TrimSuffix(match[1], "\\"))
		}
	}
	for _, name := range (verb.Registry{}).Names() {
		v, _ := verb.Lookup(name)
		line := v.CommandLine(func(string) (string, bool) { return "true", true }) // every optional part
		if rest, ok := strings.CutPrefix(line, "ister admin "); ok {
			checkCommand(t, name, cli.NewCommand(), rest)
		}
	}
}

func checkCommand(t *testing.T, where string, root *cobra.Command, line string) {
	t.Helper()
	words := strings.Fields(line)
	cmd, _, err := root.Find(words)
	if err != nil || cmd.HasSubCommands() {
		t.Errorf("%s: no command `%s`: %v", where, line, err)
		return
	}
	for _, word := range words {
		flag, isFlag := strings.CutPrefix(word, "--")
		flag, _, _ = strings.Cut(flag, "=")
		if isFlag && cmd.Flags().Lookup(flag) == nil && cmd.InheritedFlags().Lookup(flag) == nil {
			t.Errorf("%s: `%s` has no flag --%s", where, line, flag)
		}
	}
}
