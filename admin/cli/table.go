package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxColumns is the width that tables fit.
const maxColumns = 100

// table is printed with aligned columns.
type table struct {
	header []string
	rows   [][]string
}

func newTable(header ...string) *table { return &table{header: header} }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table. Where it is too wide, the widest columns are cut; the
// whole text is in the other output formats.
func (t *table) print(w io.Writer) {
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	fit(widths)
	for _, row := range append([][]string{t.header}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			fmt.Fprintf(&line, "%-*s", widths[i], cut(cell, widths[i]))
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

func fit(widths []int) {
	for {
		total, widest := 2*(len(widths)-1), 0
		for i, width := range widths {
			total += width
			if width > widths[widest] {
				widest = i
			}
		}
		if total <= maxColumns || widths[widest] <= 4 {
			return
		}
		widths[widest]--
	}
}

// cut keeps the end, which tells names apart better than the start.
func cut(cell string, width int) string {
	runes := []rune(cell)
	if len(runes) <= width {
		return cell
	}
	return ".." + string(runes[len(runes)-width+2:])
}

// fields prints "Name:  value" lines with the values aligned.
type fields struct {
	names, values []string
}

func (f *fields) add(name, value string) {
	f.names, f.values = append(f.names, name+":"), append(f.values, value)
}

func (f *fields) print(w io.Writer) {
	width := 0
	for _, name := range f.names {
		width = max(width, len(name))
	}
	for i, name := range f.names {
		fmt.Fprintf(w, "%-*s  %s\n", width, name, f.values[i])
	}
}
