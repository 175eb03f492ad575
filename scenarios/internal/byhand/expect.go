package byhand

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// anything stands in an expected text for what may be there.
const anything = "..."

// Unmet says what of the expectation does not hold; "" when all does.
func (e Expectation) Unmet(output string, status int) string {
	for _, text := range e.Texts {
		if !printed(output, text) {
			return fmt.Sprintf("%q is not printed", text)
		}
	}
	if status != e.Exit {
		return fmt.Sprintf("exit status %d, want %d", status, e.Exit)
	}
	return ""
}

// printed reports whether a line of the output has the text, as whole words: 3
// voters are not in "13 voters". Spaces of any number count as one.
func printed(output, text string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(text), regexp.QuoteMeta(anything), ".*")
	if first, _ := utf8.DecodeRuneInString(text); wordly(first) {
		pattern = `(?:^|[^\pL\pN_])` + pattern
	}
	if last, _ := utf8.DecodeLastRuneInString(text); wordly(last) {
		pattern += `(?:$|[^\pL\pN_])`
	}
	match := regexp.MustCompile(pattern)
	for line := range strings.Lines(output) {
		if match.MatchString(strings.Join(strings.Fields(line), " ")) {
			return true
		}
	}
	return false
}

func wordly(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
