package scenarios

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/ister-mq/ister/scenarios/internal/report"
)

// parted breaks text at spaces into lines of at most width columns; a word that is
// longer has a line of its own.
func parted(text string, width int) []string {
	parts := []string{""}
	for _, word := range strings.Fields(text) {
		last := &parts[len(parts)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) > width:
			parts = append(parts, word)
		default:
			*last += " " + word
		}
	}
	return parts
}

// fold writes text behind a head, within report.Width columns: what follows is
// below the beginning of the text. A line that goes on ends with tail.
func fold(out io.Writer, head, text, tail string) {
	indent := utf8.RuneCountInString(head)
	parts := parted(text, report.Width-indent-len(tail))
	for i, part := range parts {
		if i < len(parts)-1 {
			part += tail
		}
		fmt.Fprintln(out, head+part)
		head = strings.Repeat(" ", indent)
	}
}

// leftMax bounds the left one of two columns.
const leftMax = 64

// twoColumns writes pairs side by side, each folded within its column.
func twoColumns(out io.Writer, indent string, pairs [][2]string) {
	left := 0
	for _, pair := range pairs {
		left = max(left, min(leftMax, utf8.RuneCountInString(pair[0])))
	}
	for _, pair := range pairs {
		a, b := parted(pair[0], left), parted(pair[1], report.Width-len(indent)-left-2)
		for i := range max(len(a), len(b)) {
			var first, second string
			if i < len(a) {
				first = a[i]
			}
			if i < len(b) {
				second = b[i]
			}
			fmt.Fprintln(out, strings.TrimRight(indent+padded(first, left)+"  "+second, " "))
		}
	}
}
