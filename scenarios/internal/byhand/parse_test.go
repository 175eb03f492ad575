package byhand

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func skillOf(lines ...string) string {
	return "# A\n\n```bash\nnot tried\n```\n\n## By hand\n\n" + strings.Join(lines, "\n") + "\n\n## Gotchas\n\n```bash\nnot tried\n```\n"
}

func TestParseReadsCommandsAndWhatTheyGive(t *testing.T) {
	blocks, mistakes := Parse(skillOf(
		"Text with `code`.", "```bash needs=docker,python:kafka", "A=1 # a remark", "# only a remark", "",
		`echo "a # b" \`, `  'c' # expect: a # b; exit 3 ; x within 2m`, "long | command", "# expect: 12", "```",
		"```text", "no command", "```", "```sh", "x & # expect: ready within the day", "```"))
	if len(mistakes) != 0 || len(blocks) != 2 {
		t.Fatalf("%d blocks, mistakes %v", len(blocks), mistakes)
	}
	if got := fmt.Sprint(blocks[0].Needs); got != "[docker python:kafka]" {
		t.Errorf("needs %s", got)
	}
	for i, want := range []Line{
		{11, "A=1", Expectation{}},
		{14, `echo "a # b"   'c'`, Expectation{Texts: []string{"a # b", "x"}, Exit: 3, Within: 2 * time.Minute}},
		{16, "long | command", Expectation{Texts: []string{"12"}}},
	} {
		if got := blocks[0].Lines[i]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("line %d: got %+v, want %+v", i, got, want)
		}
	}
	if last := blocks[1].Lines[0]; !last.Background() || last.Expect.Texts[0] != "ready within the day" {
		t.Errorf("got %+v", last)
	}
}

func TestParseFindsMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"x # expect:":                "it states nothing",
		"x # expect: a;":             "it states nothing",
		"x # expect: exit many":      "not a status",
		"x # expect: exit 256":       "not a status",
		"x # expect: a within 10h":   "not a duration up to 5m0s",
		"x # expect: a within 3 s":   "not a duration",
		"# expect: a":                "no command above it",
		"```\n```bash need=docker":   `word "need=docker" is not known`,
		"```\n```bash needs=a,,b":    `"" is no need`,
		"```\n```bash needs=python:": `"python:" is no need`,
	} {
		_, mistakes := Parse(skillOf("```bash", line, "```"))
		if len(mistakes) != 1 || !strings.Contains(mistakes[0].Message, want) || mistakes[0].Number < 9 {
			t.Errorf("%q: got %v, want %q", line, mistakes, want)
		}
	}
}

func TestSplitRemark(t *testing.T) {
	for line, want := range map[string]string{
		"a # b":         "a|b",
		"a#b":           "a#b|",
		`a "# b" # c`:   `a "# b"|c`,
		`a '\' # b'`:    `a '\'|b'`,
		`a "\" # b"`:    `a "\" # b"|`,
		`a \# b`:        `a \# b|`,
		"a; # b":        "a;|b",
		"echo ${#a} $#": "echo ${#a} $#|",
		"# only":        "|only",
	} {
		command, remark := splitRemark(line)
		if got := command + "|" + remark; got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}

func TestExpectedTextsAreWholeWordsOfOneLine(t *testing.T) {
	output := "Voters:            1, 2, 3\nBrokers: 13, 3 active\nop-1 (rebalance) succeeded: 9 of 9 moves\n11000\n"
	for text, want := range map[string]bool{
		"Voters: 1, 2, 3": true, "Voters: 1, 2": true, "Voters: 1, 2, 3, 4": false,
		"3 active": true, "13": true, "000": false, "11000": true, "1100": false,
		"op-... (rebalance) succeeded": true, "Voters ... active": false, "(rebalance)": true, "rebalanc": false,
		"1.000": false,
	} {
		if got := printed(output, text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
