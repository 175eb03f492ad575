package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/admin/health"
)

// The values of --fail-on.
const (
	failOnWarning = "warning"
	failOnError   = "error"
)

func (a *app) healthCommand() *cobra.Command {
	failOn := failOnWarning
	c := &cobra.Command{
		Use: "health", Short: "Say how the cluster is, with what to do about each finding",
		Long: `Say how the cluster is, with what to do about each finding.

Every broker is asked, at the endpoints given and at the admin addresses that the
cluster lists. What could not be read is unknown, never fine. Nothing is changed.

It exits with 0 when the cluster is healthy, with 4 when it is degraded or
unhealthy, and with 6 when nothing bad was seen and not everything could be read.
One broker alone, as a container's health check needs it, is asked by ister health.`,
		Example: `  ister admin cluster health
  ister admin cluster health -o json | jq -r '.findings[].code'
  ister admin cluster health --fail-on error`,
		Args: noArguments,
		RunE: a.run(func(c *call) error {
			facts, err := health.Gather(c.context, a.endpoints(), actor())
			if err != nil {
				return err
			}
			report := health.Judge(facts)
			if err := c.printPlain(report, func(w io.Writer) { printHealth(w, report) }); err != nil {
				return err
			}
			return sick(report, failOn)
		}),
	}
	c.Flags().Var(choiceValue{&failOn, []string{failOnWarning, failOnError}}, "fail-on", "which findings make the exit status 4")
	return c
}

// sick is the refusal with which a cluster that is not healthy is told; nil for
// one that is.
func sick(r health.Report, failOn string) error {
	out := &client.Refusal{Kind: adminv1.Refusal_PRECONDITION, Message: "the cluster is " + string(r.Status)}
	switch {
	case r.Status == health.Healthy, r.Status == health.Degraded && failOn == failOnError:
		return nil
	case r.Status == health.NotKnown:
		out.Kind, out.Message = adminv1.Refusal_UNAVAILABLE, "nothing bad was seen, and not everything could be read"
	}
	for _, f := range r.Findings {
		if f.Severity == health.Info {
			continue
		}
		if out.Reason == "" {
			out.Reason, out.Subject, out.Advice = f.Code, f.Object, f.Remedy
			out.Message += ": " + f.Object + ": " + f.Message
		}
	}
	return out
}

func printHealth(w io.Writer, r health.Report) {
	fmt.Fprintf(w, "Cluster %s is %s.\n\n", orDash(r.ClusterID), r.Status)
	t := newTable("CHECK", "STATUS", "SAYS")
	for _, c := range r.Checks {
		t.row(c.Name, string(c.Status), c.Says)
	}
	t.print(w)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "\n%s %s: %s\n  %s\n", strings.ToUpper(string(f.Severity)), f.Code, f.Object, f.Message)
		fmt.Fprintf(w, "  What to do: %s.\n", strings.TrimSuffix(f.Remedy, "."))
	}
}

// printPlain is print for what is no message of the API.
func (c *call) printPlain(value any, text func(w io.Writer)) error {
	var out bytes.Buffer
	if c.output == formatTable {
		text(&out)
	} else {
		raw, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the result: %w", err)
		}
		out.Write(append(raw, '\n'))
		if c.output == formatYAML {
			var node yaml.Node
			if err := yaml.Unmarshal(raw, &node); err != nil {
				return fmt.Errorf("encode the result: %w", err)
			}
			blockStyle(&node)
			if raw, err = yaml.Marshal(&node); err != nil {
				return fmt.Errorf("encode the result: %w", err)
			}
			out.Reset()
			out.Write(raw)
		}
	}
	if _, err := c.stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
