// Package ister holds the skills of the source tree for the binaries: SKILL.md
// files, and what they refer to.
package ister

import (
	"embed"
	"io/fs"
)

//go:embed SKILL.md mcp/SKILL.md scenarios/*/SKILL.md scenarios/*/scenario.yaml setups/*/SKILL.md setups/*/*.sh
//go:embed setups/compose/compose.yaml setups/compose/Dockerfile
//go:embed clients/*/SKILL.md clients/*/*.sh clients/*/*.py clients/go/main.go docs/reference/*.md
var skills embed.FS

// Skills are the skills and their files, each where it is in the source tree.
func Skills() fs.FS { return skills }
