package scenarios

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
)

// What a person reads fits its columns, unless one word alone does not.
func TestWhatIsListedFitsItsColumns(t *testing.T) {
	commands := [][]string{{"list"}, {"doctor"}}
	for _, name := range shippedNames() {
		commands = append(commands, []string{"show", name}, []string{"plan", name})
	}
	for _, args := range commands {
		code, out, errOut := scenario(t, fakecluster.Setup{}, args...)
		if code != 0 {
			t.Fatalf("%v: exit %d: %s", args, code, errOut)
		}
		for line := range strings.Lines(out) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > report.Width && len(strings.Fields(strings.TrimSuffix(line, "\\"))) > 1 {
				t.Errorf("%v: %d columns: %s", args, utf8.RuneCountInString(line), line)
			}
			if strings.ContainsRune(line, '\x1b') {
				t.Errorf("%v: colours without a terminal: %q", args, line)
			}
		}
	}
}
