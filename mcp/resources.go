package mcp

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	protocol "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

//go:embed SKILL.md
var ownSkill []byte

const (
	skillFile = "SKILL.md"
	ownName   = "mcp"
	// skillMax bounds one skill, and resourceMax a run's file, in bytes.
	skillMax    = 64 << 10
	resourceMax = 1 << 20
	// skillsMax bounds the number of skills.
	skillsMax = 100
)

// The templates of the resources.
const (
	templateScenario = "scenario://{id}"
	templateReport   = "run://{id}/report.json"
	templateSummary  = "run://{id}/summary.md"
	templateSkill    = "skill://{name}/" + skillFile
)

const (
	mimeJSON     = "application/json"
	mimeMarkdown = "text/markdown"
)

// readSkills finds <name>/SKILL.md in file systems, at any depth; the name is
// that of the folder.
func readSkills(from []fs.FS) (map[string][]byte, error) {
	skills := map[string][]byte{ownName: ownSkill}
	for _, files := range from {
		err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path.Base(name) != skillFile || path.Dir(name) == "." {
				return err
			}
			raw, err := fs.ReadFile(files, name)
			switch {
			case err != nil:
				return err
			case len(raw) > skillMax:
				return fmt.Errorf("%s is longer than %d bytes", name, skillMax)
			case len(skills) >= skillsMax:
				return fmt.Errorf("more than %d skills", skillsMax)
			}
			skills[path.Base(path.Dir(name))] = raw
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read skills: %w", err)
		}
	}
	return skills, nil
}

var descriptionLine = regexp.MustCompile(`(?m)^description: *(.+)$`)

// skillDescription is what the frontmatter says a skill is for.
func skillDescription(raw []byte) string {
	if m := descriptionLine.FindSubmatch(raw); m != nil {
		return string(m[1])
	}
	return ""
}

// addResources adds what is fixed as resources, and everything as templates.
func (s *Server) addResources() error {
	all, err := s.scenarioList(context.Background())
	if err != nil {
		return err
	}
	for _, l := range all {
		s.mcp.AddResource(protocol.NewResource("scenario://"+l.ID, l.ID, protocol.WithResourceTitle(l.Title), protocol.WithResourceDescription("the whole scenario: aspects, parameters, steps, criteria"), protocol.WithMIMEType(mimeJSON)), s.readResource)
	}
	for _, name := range slices.Sorted(maps.Keys(s.skills)) {
		s.mcp.AddResource(protocol.NewResource("skill://"+name+"/"+skillFile, name, protocol.WithResourceDescription(skillDescription(s.skills[name])), protocol.WithMIMEType(mimeMarkdown)), s.readResource)
	}
	for _, t := range []struct{ uri, name, doc, mime string }{
		{templateScenario, "scenario", "a scenario by its id", mimeJSON},
		{templateReport, "run-report", "the record of a run: verdict, criteria, steps", mimeJSON},
		{templateSummary, "run-summary", "the result of a run as a page", mimeMarkdown},
		{templateSkill, "skill", "how to do something step by step", mimeMarkdown},
	} {
		s.mcp.AddResourceTemplate(protocol.NewResourceTemplate(t.uri, t.name, protocol.WithTemplateDescription(t.doc), protocol.WithTemplateMIMEType(t.mime)), server.ResourceTemplateHandlerFunc(s.readResource))
	}
	return nil
}

var resourceURI = regexp.MustCompile(`^(scenario|run|skill)://([a-z0-9][a-z0-9-]{0,100})(/[A-Za-z.]+)?$`)

// readResource reads any resource of this package.
func (s *Server) readResource(ctx context.Context, request protocol.ReadResourceRequest) ([]protocol.ResourceContents, error) {
	uri := request.Params.URI
	m := resourceURI.FindStringSubmatch(uri)
	if m == nil {
		return nil, fmt.Errorf("resource %s: no such resource; there are %s", uri, strings.Join([]string{templateScenario, templateReport, templateSummary, templateSkill}, ", "))
	}
	text, mime, err := s.resource(ctx, m[1], m[2], m[3])
	if err != nil {
		return nil, fmt.Errorf("resource %s: %w", uri, err)
	}
	return []protocol.ResourceContents{protocol.TextResourceContents{URI: uri, MIMEType: mime, Text: text}}, nil
}

func (s *Server) resource(ctx context.Context, scheme, name, file string) (text, mime string, err error) {
	switch {
	case scheme == "scenario" && file == "":
		if _, err := s.scenario(ctx, name); err != nil {
			return "", "", err
		}
		whole := map[string]any{}
		err := s.command(ctx, &whole, "show", name)
		return string(mustJSON(whole)), mimeJSON, err
	case scheme == "skill" && file == "/"+skillFile:
		raw, isThere := s.skills[name]
		if !isThere {
			return "", "", fmt.Errorf("no such skill; there are %s", strings.Join(slices.Sorted(maps.Keys(s.skills)), ", "))
		}
		return string(raw), mimeMarkdown, nil
	case scheme == "run" && (file == "/report.json" || file == "/summary.md"):
		dir, r, err := s.findRun(name)
		if err != nil {
			return "", "", err
		}
		from, mime := runFile, mimeJSON
		if file == "/summary.md" {
			from, mime = "summary.md", mimeMarkdown
		}
		raw, err := readBounded(filepath.Join(dir, from), resourceMax)
		if errors.Is(err, fs.ErrNotExist) {
			return "", "", fmt.Errorf("run %s is %s and has no %s yet", r.ID, r.Verdict, from)
		}
		return string(raw), mime, err
	}
	return "", "", errors.New("no such resource")
}
