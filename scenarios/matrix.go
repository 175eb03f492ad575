package scenarios

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/run"
)

// setupNeeds are what a machine must have for a setup, beside this binary. A
// setup that is not listed needs nothing.
var setupNeeds = map[string][]string{
	"container": {"docker"},
	"compose":   {"docker", "docker-compose"},
	"netns":     {needRoot},
	"attach":    {needCluster},
}

// What a machine may lack: a cluster that is there already, which a CI's jobs do
// not have, and root, which they get from sudo.
const (
	needCluster = "cluster"
	needRoot    = "root"
)

// matrixCellsMax is the bound that GitHub sets on a matrix.
const matrixCellsMax = 256

// matrixCell is one scenario on one setup.
type matrixCell struct {
	Scenario string   `json:"scenario"`
	Setup    string   `json:"setup"`
	Needs    []string `json:"needs"`
	// Aspects are those that the setup can do; absent when it can do all.
	Aspects        []string `json:"aspects,omitempty"`
	Risk           string   `json:"risk"`
	TimeoutMinutes int      `json:"timeout_minutes"` // the scenario's deadline, and time for starting and cleaning
	Command        string   `json:"command"`
}

// matrixSlackMinutes is for what the deadline of a scenario does not bound:
// building, starting and cleaning up.
const matrixSlackMinutes = 10

// matrix lists every shipped scenario with every setup that it runs on and this
// build has, in a fixed order. A cell has the aspects that the setup can do, and
// is left out when there are none.
func (c *common) matrix() ([]matrixCell, error) {
	cells := []matrixCell{}
	for _, name := range shippedNames() {
		s, err := load(name)
		if err != nil {
			return nil, err
		}
		for _, setup := range s.Setups {
			found, err := c.setupOf(s, setup)
			if err != nil {
				continue // this build does not have it
			}
			aspects := run.RunnableAspects(s, found, true)
			if len(aspects) == 0 {
				continue // whatever flags it is given
			}
			needs := setupNeeds[setup]
			if needs == nil {
				needs = []string{}
			}
			cell := matrixCell{
				Scenario: s.ID, Setup: setup, Needs: needs, Risk: string(s.Risk), TimeoutMinutes: int(s.Deadline.Minutes()) + matrixSlackMinutes,
				Command: fmt.Sprintf("scenario run %s --setup %s", s.ID, setup),
			}
			if len(aspects) < len(s.Aspects) {
				cell.Aspects = aspects
				cell.Command += " --aspect " + strings.Join(aspects, " --aspect ")
			}
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

func (c *common) matrixCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "matrix", Short: "List every scenario with every setup, for a CI",
		Long: `List every shipped scenario with every setup that it runs on, what the setup needs, and the bound on its time.
With --format github it is one line for fromJSON in a workflow; what needs a cluster that is there already
is left out; a cell whose needs name root is for sudo.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("format", format, "github", "json"); err != nil {
				return err
			}
			cells, err := c.matrix()
			switch {
			case err != nil:
				return err
			case format == "github":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string][]matrixCell{"include": forCI(cells)})
			}
			return printJSON(cmd.OutOrStdout(), cells)
		},
	}
	cmd.Flags().StringVar(&format, "format", "json", "github or json")
	return cmd
}

// forCI keeps what a CI machine can run, as many as its matrix takes.
func forCI(cells []matrixCell) []matrixCell {
	kept := slices.DeleteFunc(slices.Clone(cells), func(cell matrixCell) bool {
		return slices.Contains(cell.Needs, needCluster)
	})
	return kept[:min(len(kept), matrixCellsMax)]
}
