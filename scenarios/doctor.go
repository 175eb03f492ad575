package scenarios

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/attach"
)

func (c *common) doctorCommand() *cobra.Command {
	var setup string
	var attached attachFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Say what is missing on this machine, and how to get it", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := c.toCheck(cmd.Context(), setup, &attached)
			if err != nil {
				return err
			}
			out, fatal, findings := cmd.OutOrStdout(), 0, []setups.Finding{}
			found := func(heading string, news ...setups.Finding) {
				if heading != "" && !c.json() {
					fmt.Fprintf(out, "setup %s\n", heading)
				}
				for _, f := range news {
					if !f.OK && f.Fatal {
						fatal++
					}
					if !c.json() {
						showFinding(out, f)
					}
				}
				findings = append(findings, news...)
			}
			found("", c.checkRunsDir())
			for _, setup := range chosen { // each is shown before the next is looked at
				found(setup.Name(), setup.Check(cmd.Context())...)
			}
			if c.json() {
				if err := printJSON(out, findings); err != nil {
					return err
				}
			}
			if fatal > 0 {
				return &exitError{code: report.ExitEnvironment, err: fmt.Errorf("%s missing", count(fatal, "thing")), silent: c.json()}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&setup, "setup", "", "only what this setup needs (default: every setup that starts its own brokers)")
	attached.add(cmd)
	return cmd
}

func showFinding(out io.Writer, f setups.Finding) {
	mark := "ok  "
	if !f.OK {
		mark = "MISS"
	}
	fold(out, fmt.Sprintf("%s  %-19s ", mark, f.Code), f.Message, "")
	if !f.OK {
		fold(out, padded("", 26), f.Remedy, "")
	}
}

// toCheck are the setups that doctor looks at. Without a name that is all but
// attach, which is about a cluster and not about this machine.
func (c *common) toCheck(ctx context.Context, name string, f *attachFlags) ([]setups.Setup, error) {
	if name == "" && f.given() != "" {
		name = attach.Setup{}.Name()
	}
	var chosen []setups.Setup
	var known []string
	for _, setup := range c.setups {
		known = append(known, setup.Name())
		if name == setup.Name() {
			applied, err := f.applied(ctx, setup)
			return []setups.Setup{applied}, err
		}
		if _, foreign := setup.(attach.Setup); !foreign {
			chosen = append(chosen, setup)
		}
	}
	if name != "" {
		return nil, &usageError{fmt.Errorf("no setup is called %s", name), spec.Suggest(name, known)}
	}
	return chosen, nil
}

// checkRunsDir looks whether runs can be written, without leaving anything.
func (c *common) checkRunsDir() setups.Finding {
	f := setups.Finding{Code: "RUNS_DIRECTORY", OK: true, Message: "runs go to " + c.runsDir}
	parent := c.runsDir
	for {
		if _, err := os.Stat(parent); err == nil {
			break
		}
		parent = filepath.Dir(parent)
	}
	probe, err := os.MkdirTemp(parent, ".scenario-doctor-")
	if err == nil {
		err = os.Remove(probe)
	}
	if err != nil {
		f.OK, f.Fatal, f.Message, f.Remedy = false, true, err.Error(), "give a directory that can be written with --runs-dir"
	}
	return f
}
