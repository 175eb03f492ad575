package scenarios

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/scenarios/internal/verb"
)

// schemaFile is the published JSON Schema, from the directory of scenarios.
const schemaFile = "schema/scenario.v1.json"

// schemaLine makes editors complete and check a scenario file. It is the first
// line of each.
func schemaLine(address string) string { return "# yaml-language-server: $schema=" + address }

func (c *common) schemaCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of scenario files, or the reference of its verbs",
		Long: `Print the JSON Schema (draft 2020-12) of scenario files in the format ` + spec.APIVersion + `.

An editor with a YAML language server completes and checks a scenario whose first line is
` + schemaLine("FILE-OR-URL") + `. What a schema cannot express, such as what an
expression refers to, is checked by scenario lint. With --format markdown it is the reference of the verbs.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch format {
			case "json":
				schema, err := spec.Schema(verb.Registry{})
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(schema)
				return err
			case "markdown":
				_, err := fmt.Fprint(cmd.OutOrStdout(), verbReference())
				return err
			}
			return oneOf("format", format, "json", "markdown")
		},
	}
	cmd.Flags().StringVar(&format, "format", "json", "json, or markdown for the reference of the verbs")
	return cmd
}

// schemaAddress is where a scenario in a subdirectory of dir finds the schema:
// beside it, or where it is published.
func schemaAddress(dir fs.FS) (string, error) {
	_, err := fs.Stat(dir, schemaFile)
	switch {
	case err == nil:
		return "../" + schemaFile, nil
	case errors.Is(err, os.ErrNotExist):
		return spec.SchemaID, nil
	}
	return "", fmt.Errorf("look for the schema: %w", err)
}
