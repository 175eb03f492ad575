package scenarios

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/report"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// scaffold is a scenario that runs as it is: a topic under load, and a judged
// history. ID and SCHEMA are filled in.
const scaffold = `SCHEMA
# What this scenario shows, and why it matters.
apiVersion: scenario/v1
id: ID
title: A topic takes records and loses none
description: >-
  Three brokers and one reliable topic under steady load. Replace the steps of the aspect with what is to be shown.
risk: additive
setups: [process]
deadline: 5m
cluster: {brokers: 3}

params:
  rate: {type: int, default: 50, min: 1, max: 1000, doc: "records per second"}
  messages: {type: int, default: 200, min: 1, max: 100000, doc: "records"}

setup:
  - {id: cluster, title: Start 3 brokers, use: cluster.start, otherwise: "all three must be up: see their logs"}
  - {id: topic, title: Create the topic, use: topic.create, with: {name: /default/ID}}
  - id: load
    title: Start the load
    use: load.start
    with: {id: ID, topics: "${topic.kafka_names}", rate: "${params.rate}", messages: "${params.messages}"}

aspects:
  - id: main
    title: Every acknowledged record is there
    steps:
      - {id: sent, title: Wait for all acknowledgements, use: load.wait, with: {load: "${load.id}"}}
      - {id: stop, title: Stop the load, use: load.stop, with: {load: "${load.id}"}}
      - {id: verify, title: Read everything and judge the history, use: load.verify, with: {load: "${load.id}"}}
    guards:
      - {id: acked, title: records were acknowledged, metric: verify.acked, op: ">=", value: 1}
    criteria:
      - {id: lost, title: acknowledged records lost, metric: verify.acked_missing, op: "==", value: 0}
      - {id: all, title: violations of any kind, metric: verify.violations, op: "==", value: 0, detail: "${verify.first_violation}"}

on_failure:
  - {id: captured, title: Keep the state of the cluster, use: capture.state}
`

const scaffoldSkill = `---
name: ID
description: Show that a reliable topic of an Ister cluster takes records and loses none. Use when (say what a person would ask for).
license: Apache-2.0
compatibility: Needs Go 1.26 or an ister binary. Linux or macOS. Runs brokers as local processes.
---

# ID

Say in a few lines what happens, and why.

## One command

` + "```bash" + `
scenario run FILE
scenario plan FILE        # the steps and their commands, without running
` + "```" + `

Exit code 0 is a pass. The evidence is in ` + "`runs/<id>/`" + `; ` + "`scenario verify last`" + ` judges the history again.

## What must hold

CRITERIA

## Steps

STEPS

## Cleanup

After a run: nothing to do. After an interrupted runner: ` + "`scenario clean last`" + `.
`

func (c *common) newScenarioCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "new NAME", Short: "Write a new scenario to start from, with its skill", Args: exactly("NAME"),
		Long: `Write NAME/scenario.yaml and NAME/SKILL.md into --dir. They are complete: the scenario runs and the skill is
checked, so that each change can be tried at once. Nothing that exists is written over.

Exit codes: 0 written, 2 the name is taken or not allowed, 4 the directory cannot be written.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(dir); err == nil && !info.IsDir() {
				return &exitError{code: report.ExitEnvironment, err: fmt.Errorf("%s is no directory: give one with --dir", dir)}
			}
			if dir == "" {
				return &usageError{errors.New("--dir is empty"), "leave it out, and it is scenarios"}
			}
			files, err := scaffoldFiles(dir, args[0])
			if err != nil {
				return err
			}
			if slices.Contains(shippedNames(), args[0]) {
				return &usageError{fmt.Errorf("%s is shipped: its name would stand for that one", args[0]), "choose another name"}
			}
			target := filepath.Join(dir, args[0])
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return &exitError{code: report.ExitEnvironment, err: fmt.Errorf("make directory: %w", err)}
			}
			if err := os.Mkdir(target, 0o755); errors.Is(err, os.ErrExist) {
				return &usageError{fmt.Errorf("%s exists", target), "choose another name"}
			} else if err != nil {
				return &exitError{code: report.ExitEnvironment, err: fmt.Errorf("make directory: %w", err)}
			}
			for _, f := range files {
				name := filepath.Join(target, f.name)
				if err := os.WriteFile(name, []byte(f.text), 0o644); err != nil {
					return &exitError{code: report.ExitEnvironment, err: fmt.Errorf("write scenario: %w", err)}
				}
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "next: scenario lint %s; scenario run %s; after a change: scenario skills gen\n", target, target)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "scenarios", "directory of scenarios")
	return cmd
}

type scaffoldFile struct{ name, text string }

// scaffoldFiles are the two files of a new scenario, its skill's blocks filled.
func scaffoldFiles(dir, name string) ([]scaffoldFile, error) {
	address, err := schemaAddress(os.DirFS(dir))
	if err != nil {
		return nil, &exitError{code: report.ExitEnvironment, err: err}
	}
	source := strings.NewReplacer("SCHEMA", schemaLine(address), "/ID", "/"+name, ": ID", ": "+name).Replace(scaffold)
	s, err := spec.Parse(name+"/"+specFile, []byte(source), verb.Registry{})
	if err != nil {
		return nil, &usageError{fmt.Errorf("%q cannot be the name of a scenario", name), "lower-case words joined by single hyphens, such as broker-scaling"}
	}
	blocks := func(name string) string { return blockBegin(name) + "\n" + blockEnd(name) }
	text := strings.NewReplacer("ID", name, "FILE", filepath.ToSlash(filepath.Join(dir, name)), "CRITERIA", blocks("criteria"), "STEPS", blocks("steps")).Replace(scaffoldSkill)
	text, problems := (&skillTree{}).fillBlocks(skill{file: name + "/" + skillFile, name: name, text: text, scenario: s})
	if len(problems) > 0 {
		return nil, problems
	}
	return []scaffoldFile{{specFile, source}, {skillFile, text}}, nil
}
