package scenarios

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/run"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

// table is several runs of one scenario side by side.
type table struct {
	Scenario string        `json:"scenario"`
	Title    string        `json:"title"`
	Runs     []tableColumn `json:"runs"`
	Rows     []tableRow    `json:"rows"`
	// Disagreements says in words what came out differently.
	Disagreements []string `json:"disagreements"`
}

// tableColumn is one run.
type tableColumn struct {
	Name      string         `json:"name"` // its setup, numbered where there are several of it
	RunID     string         `json:"run_id"`
	Setup     string         `json:"setup"`
	Verdict   report.Verdict `json:"verdict"`
	Seed      int64          `json:"seed"`
	TookMS    int64          `json:"took_ms"`
	Directory string         `json:"directory"`
}

// tableRow is one criterion, or a guard that was not met everywhere.
type tableRow struct {
	Aspect   string       `json:"aspect"`
	ID       string       `json:"id"`
	Title    string       `json:"title"`
	Guard    bool         `json:"guard,omitempty"`
	Cells    []*tableCell `json:"cells"` // one for each run; null: not judged there
	Disagree bool         `json:"disagree"`
}

type tableCell struct {
	Status   report.CheckStatus `json:"status"`
	Observed string             `json:"observed"`
	Op       string             `json:"op"`
	Expected string             `json:"expected"`
}

// tablesOf puts runs side by side, a table for each scenario in order of names.
// The runs of a scenario keep their order.
func tablesOf(runs []*report.Run) []table {
	var names []string
	of := map[string][]*report.Run{}
	for _, r := range runs {
		if of[r.Scenario] == nil {
			names = append(names, r.Scenario)
		}
		of[r.Scenario] = append(of[r.Scenario], r)
	}
	slices.Sort(names)
	tables := []table{}
	for _, name := range names {
		tables = append(tables, tableOf(of[name]))
	}
	return tables
}

func tableOf(runs []*report.Run) table {
	t := table{Scenario: runs[0].Scenario, Title: runs[0].Title, Rows: []tableRow{}, Disagreements: []string{}}
	count := map[string]int{}
	for _, r := range runs {
		count[r.Setup]++
	}
	seen, at := map[string]int{}, map[string]int{}
	for i, r := range runs {
		seen[r.Setup]++
		name := r.Setup
		if count[r.Setup] > 1 {
			name = fmt.Sprintf("%s %d", name, seen[r.Setup])
		}
		t.Runs = append(t.Runs, tableColumn{Name: name, RunID: r.ID, Setup: r.Setup, Verdict: r.Verdict, Seed: r.Seed, TookMS: r.TookMS - r.PreparedMS, Directory: r.Directory})
		for _, check := range slices.Concat(r.Guards, r.Criteria) {
			key := fmt.Sprint(check.Guard, check.Aspect, "/", check.ID)
			if _, ok := at[key]; !ok {
				at[key] = len(t.Rows)
				t.Rows = append(t.Rows, tableRow{Aspect: check.Aspect, ID: check.ID, Title: check.Title, Guard: check.Guard, Cells: make([]*tableCell, len(runs))})
			}
			t.Rows[at[key]].Cells[i] = &tableCell{Status: check.Status, Observed: check.Observed, Op: check.Op, Expected: check.Expected}
		}
	}
	t.Rows = slices.DeleteFunc(t.Rows, func(row tableRow) bool { return row.Guard && row.met() })
	t.group()
	t.compare()
	return t
}

// met: everywhere judged, and good.
func (row tableRow) met() bool {
	return !slices.ContainsFunc(row.Cells, func(c *tableCell) bool { return c == nil || c.Status != report.CheckPass })
}

// group brings the rows of an aspect together, in the order in which aspects were
// judged first.
func (t *table) group() {
	order := map[string]int{}
	for _, row := range t.Rows {
		if _, ok := order[row.Aspect]; !ok {
			order[row.Aspect] = len(order)
		}
	}
	slices.SortStableFunc(t.Rows, func(a, b tableRow) int { return order[a.Aspect] - order[b.Aspect] })
}

// compare finds what came out differently: of the runs as a whole, and of each
// criterion that more than one of them judged. What a run did not judge is told
// once for the run.
func (t *table) compare() {
	words := make([]string, len(t.Runs))
	differ := false
	for i, column := range t.Runs {
		words[i] = column.Name + " " + string(column.Verdict)
		differ = differ || column.Verdict != t.Runs[0].Verdict
	}
	if differ {
		t.Disagreements = append(t.Disagreements, "verdict: "+strings.Join(words, ", "))
	}
	missing := make([]int, len(t.Runs))
	for i := range t.Rows {
		row := &t.Rows[i]
		seen := map[string]bool{}
		for j, cell := range row.Cells {
			words[j] = t.Runs[j].Name + " " + cell.status()
			if cell.judged() {
				seen[cell.status()] = true
			}
		}
		for j, cell := range row.Cells {
			if len(seen) > 0 && !cell.judged() { // another run did
				missing[j]++
			}
		}
		row.Disagree = len(seen) > 1
		if row.Disagree {
			t.Disagreements = append(t.Disagreements, fmt.Sprintf("%s/%s: %s", row.Aspect, row.ID, strings.Join(words, ", ")))
		}
	}
	for i, n := range missing {
		if n > 0 {
			t.Disagreements = append(t.Disagreements, fmt.Sprintf("%s did not judge %d of %d criteria and guards that another run did", t.Runs[i].Name, n, len(t.Rows)))
		}
	}
}

func (c *tableCell) judged() bool { return c != nil && c.Status != report.NotEvaluated }

func (c *tableCell) status() string {
	if c == nil {
		return "not judged"
	}
	return string(c.Status)
}

// text is a cell in a table: what was observed; a word comes first when it did
// not pass.
func (c *tableCell) text() string {
	switch {
	case c == nil:
		return "-"
	case c.Status == report.CheckPass:
		return c.Observed
	case c.Status == report.CheckFail:
		return "FAIL " + c.Observed
	}
	return "NONE"
}

func (row tableRow) label() string {
	if row.Guard {
		return "guard: " + row.Title
	}
	return row.Title
}

// want is the bound of a row, "" where the runs had different ones.
func (row tableRow) want() string {
	want := ""
	for _, cell := range row.Cells {
		if cell == nil {
			continue
		}
		switch text := cell.Op + " " + cell.Expected; {
		case want == "":
			want = text
		case want != text:
			return ""
		}
	}
	return want
}

// summary is the rows about the runs themselves.
func (t table) summary() (labels []string, cells [][]string) {
	labels = []string{"verdict", "criteria passed", "took", "seed"}
	cells = make([][]string, len(labels))
	for i, column := range t.Runs {
		passed, judged := 0, 0
		for _, row := range t.Rows {
			if cell := row.Cells[i]; !row.Guard && cell != nil {
				judged++
				if cell.Status == report.CheckPass {
					passed++
				}
			}
		}
		took := (time.Duration(column.TookMS) * time.Millisecond).Round(100 * time.Millisecond)
		for j, text := range []string{strings.ToUpper(string(column.Verdict)), fmt.Sprintf("%d of %d", passed, judged), took.String(), fmt.Sprint(column.Seed)} {
			cells[j] = append(cells[j], text)
		}
	}
	return labels, cells
}

// The widths of a table as text: a run has at least its minimum, and what is over
// goes to the titles.
const (
	columnWidthMin = 12
	titleWidthMin  = 34
	wantWidth      = 12
)

// write renders the table as text within report.Width columns. More runs than fit
// go into further parts below.
func (t table) write(out io.Writer) {
	fmt.Fprintf(out, "%s: %s\n", t.Scenario, t.Title)
	fit := (report.Width - titleWidthMin - wantWidth - 2) / (columnWidthMin + 1)
	for from := 0; from < len(t.Runs); from += fit {
		t.part(out, from, min(len(t.Runs), from+fit))
	}
	for _, line := range t.Disagreements {
		fold(out, "DISAGREE ", line, "")
	}
	if len(t.Disagreements) == 0 && len(t.Runs) > 1 {
		fmt.Fprintln(out, "the runs agree on every criterion and on the verdict")
	}
}

// part writes the runs [from, to).
func (t table) part(out io.Writer, from, to int) {
	width := columnWidthMin
	for _, column := range t.Runs[from:to] {
		width = max(width, min(utf8.RuneCountInString(column.Name), 20))
	}
	width = min(width, (report.Width-titleWidthMin-wantWidth-2)/(to-from)-1)
	title := report.Width - wantWidth - 2 - (to-from)*(width+1)
	line := func(mark, label, want string, cells []string) {
		text := mark + " " + padded(clipped(label, title-1), title-1) + " " + padded(clipped(want, wantWidth), wantWidth)
		for _, cell := range cells {
			text += " " + padded(clipped(cell, width), width)
		}
		fmt.Fprintln(out, strings.TrimRight(text, " "))
	}
	names := make([]string, 0, to-from)
	for _, column := range t.Runs[from:to] {
		names = append(names, column.Name)
	}
	line(" ", "", "want", names)
	labels, cells := t.summary()
	for i, label := range labels {
		line(" ", label, "", cells[i][from:to])
	}
	aspect := ""
	for _, row := range t.Rows {
		if row.Aspect != aspect {
			aspect = row.Aspect
			fmt.Fprintln(out, aspect)
		}
		texts := make([]string, 0, to-from)
		for _, cell := range row.Cells[from:to] {
			texts = append(texts, cell.text())
		}
		mark := " "
		if row.Disagree {
			mark = "!"
		}
		line(mark, row.label(), row.want(), texts)
	}
}

func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func clipped(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-3)]) + "..."
}

// markdown renders the table for a page, such as the summary of a CI.
func (t table) markdown(out io.Writer) {
	escape := strings.NewReplacer("|", "\\|", "\n", " ").Replace
	row := func(cells ...string) { fmt.Fprintln(out, "| "+strings.Join(cells, " | ")+" |") }
	fmt.Fprintf(out, "## %s\n\n%s\n\n", t.Scenario, t.Title)
	head, rule := []string{"criterion", "want"}, []string{"---", "---"}
	for _, column := range t.Runs {
		head, rule = append(head, escape(column.Name)), append(rule, "---")
	}
	row(head...)
	row(rule...)
	labels, cells := t.summary()
	for i, label := range labels {
		row(append([]string{"**" + label + "**", ""}, cells[i]...)...)
	}
	for _, r := range t.Rows {
		texts := []string{escape(r.Aspect + ": " + r.label()), escape(r.want())}
		for _, cell := range r.Cells {
			text := escape(cell.text())
			if cell == nil || cell.Status != report.CheckPass {
				text = "**" + text + "**"
			}
			texts = append(texts, text)
		}
		row(texts...)
	}
	fmt.Fprintln(out)
	for _, line := range t.Disagreements {
		fmt.Fprintln(out, "- disagree: "+escape(line))
	}
	if len(t.Disagreements) == 0 && len(t.Runs) > 1 {
		fmt.Fprintln(out, "The runs agree on every criterion and on the verdict.")
	}
	fmt.Fprintln(out)
}

func (c *common) tableCommand() *cobra.Command {
	var format, scenario string
	cmd := &cobra.Command{
		Use: "table [RUN...]", Short: "Put runs side by side: criteria by setup",
		Long: `Put runs of one scenario side by side: what each criterion was on each setup, and where two of them disagree.
Runs of several scenarios give a table each. Without RUN it is the newest ended run on each setup, of
--scenario or of the scenario that ran last. Exit code 1 when the runs of a scenario disagree on a criterion
or on the verdict.`,
		Example: "  scenario table\n  scenario table --scenario broker-scaling --format md\n  scenario table evidence/*/*/",
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.json() {
				format = "json"
			}
			if err := oneOf("format", format, "text", "md", "json"); err != nil {
				return err
			}
			if len(args) > 0 && scenario != "" {
				return &usageError{fmt.Errorf("--scenario %s does not go with RUN", scenario), "name the runs, or the scenario"}
			}
			runs, err := c.tabled(args, scenario)
			if err != nil {
				return err
			}
			return printTables(cmd.OutOrStdout(), format, tablesOf(runs))
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text, md or json")
	cmd.Flags().StringVar(&scenario, "scenario", "", "the newest run of this scenario on each setup")
	return cmd
}

func printTables(out io.Writer, format string, tables []table) error {
	differ := 0
	for i, t := range tables {
		differ += len(t.Disagreements)
		switch {
		case format == "md":
			t.markdown(out)
		case format == "text":
			if i > 0 {
				fmt.Fprintln(out)
			}
			t.write(out)
		}
	}
	if format == "json" {
		if err := printJSON(out, tables); err != nil {
			return err
		}
	}
	if differ > 0 {
		return &exitError{code: report.ExitFail, err: fmt.Errorf("runs of one scenario disagree in %s", count(differ, "thing")), silent: format == "json"}
	}
	return nil
}

// tabled are the runs that a table is asked of.
func (c *common) tabled(names []string, scenario string) (runs []*report.Run, err error) {
	for _, name := range names {
		dir, err := c.find(name)
		if err != nil {
			return nil, err
		}
		r, err := report.LoadRun(dir)
		if err != nil {
			return nil, environment(err)
		}
		if r.Verdict == report.Running {
			return nil, &usageError{fmt.Errorf("run %s has not ended", filepath.Base(dir)), "see: scenario watch " + dir}
		}
		runs = append(runs, r)
	}
	if len(names) > 0 {
		return runs, nil
	}
	infos, err := run.List(c.runsDir)
	if err != nil {
		return nil, environment(err)
	}
	var scenarios []string
	newest := map[string]*report.Run{} // by setup
	for _, info := range slices.Backward(infos) {
		r := info.Run
		if r.Verdict == report.Running {
			continue
		}
		scenarios = append(scenarios, r.Scenario)
		if scenario == "" {
			scenario = r.Scenario
		}
		if r.Scenario == scenario && newest[r.Setup] == nil {
			newest[r.Setup] = r
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		hint := "see: scenario runs"
		if scenario != "" {
			hint = spec.Suggest(scenario, scenarios)
		}
		return nil, &usageError{fmt.Errorf("no ended run of %s in %s", orWord(scenario, "any scenario"), c.runsDir), hint}
	}
	order := func(r *report.Run) int { return slices.Index(spec.Setups, r.Setup) }
	slices.SortStableFunc(runs, func(a, b *report.Run) int { return order(a) - order(b) })
	return runs, nil
}

// orWord is text, or a word where there is none.
func orWord(text, word string) string {
	if text == "" {
		return word
	}
	return text
}
