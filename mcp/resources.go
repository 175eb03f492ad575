package mcp

import (
	"context"
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

	ister "github.com/ister-mq/ister"
)

const (
	skillFile = "SKILL.md"
	// resourceMax bounds a skill's file and a run's, in bytes.
	resourceMax = 1 << 20
)

// The templates of the resources.
const (
	templateScenario = "scenario://{id}"
	templateReport   = "run://{id}/report.json"
	templateSummary  = "run://{id}/summary.md"
	templateSkill    = "skill://{name}/{file}"
)

const (
	mimeJSON     = "application/json"
	mimeMarkdown = "text/markdown"
)

// skill is one skill of the source tree.
type skill struct {
	name, description string
	dir               string // of its files, in ister.Skills()
}

// frontLine matches a line of the frontmatter.
var frontLine = regexp.MustCompile(`(?m)^(name|description): *(.+)$`)

// readSkills lists the skills by name.
func readSkills() (map[string]skill, error) {
	skills := map[string]skill{}
	err := fs.WalkDir(ister.Skills(), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Base(file) != skillFile {
			return err
		}
		raw, err := fs.ReadFile(ister.Skills(), file)
		if err != nil {
			return err
		}
		one := skill{dir: path.Dir(file)}
		for _, m := range frontLine.FindAllSubmatch(raw, 2) {
			if string(m[1]) == "name" {
				one.name = string(m[2])
			} else {
				one.description = string(m[2])
			}
		}
		if other, taken := skills[one.name]; taken || one.name == "" {
			return fmt.Errorf("%s has the name %q, as has %q", file, one.name, other.dir)
		}
		skills[one.name] = one
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read skills: %w", err)
	}
	return skills, nil
}

// files lists what a skill comes with, SKILL.md among it.
func (k skill) files() []string {
	entries, _ := fs.ReadDir(ister.Skills(), k.dir) // it has been read
	names := []string{}
	for _, entry := range entries {
		if !entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
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
		s.mcp.AddResource(protocol.NewResource("skill://"+name+"/"+skillFile, name, protocol.WithResourceDescription(s.skills[name].description), protocol.WithMIMEType(mimeMarkdown)), s.readResource)
	}
	for _, t := range []struct{ uri, name, doc, mime string }{
		{templateScenario, "scenario", "a scenario by its id", mimeJSON},
		{templateReport, "run-report", "the record of a run: verdict, criteria, steps", mimeJSON},
		{templateSummary, "run-summary", "the result of a run as a page", mimeMarkdown},
		{templateSkill, "skill", "how to do something step by step: SKILL.md, and the files that it names", ""},
	} {
		s.mcp.AddResourceTemplate(protocol.NewResourceTemplate(t.uri, t.name, protocol.WithTemplateDescription(t.doc), protocol.WithTemplateMIMEType(t.mime)), server.ResourceTemplateHandlerFunc(s.readResource))
	}
	return nil
}

var resourceURI = regexp.MustCompile(`^(scenario|run|skill)://([a-z0-9][a-z0-9-]{0,100})(/[A-Za-z0-9._-]+)?$`)

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
	case scheme == "skill" && file != "":
		one, isThere := s.skills[name]
		if !isThere {
			return "", "", fmt.Errorf("no such skill; there are %s", strings.Join(slices.Sorted(maps.Keys(s.skills)), ", "))
		}
		if !slices.Contains(one.files(), file[1:]) {
			return "", "", fmt.Errorf("no such file of the skill; there are %s", strings.Join(one.files(), ", "))
		}
		raw, err := fs.ReadFile(ister.Skills(), path.Join(one.dir, file[1:]))
		return string(raw), mimeOf(file), err
	case scheme == "run" && (file == "/report.json" || file == "/summary.md"):
		dir, r, err := s.findRun(name)
		if err != nil {
			return "", "", err
		}
		from := runFile
		if file == "/summary.md" {
			from = "summary.md"
		}
		raw, err := readBounded(filepath.Join(dir, from), resourceMax)
		if errors.Is(err, fs.ErrNotExist) {
			return "", "", fmt.Errorf("run %s is %s and has no %s yet", r.ID, r.Verdict, from)
		}
		return string(raw), mimeOf(from), err
	}
	return "", "", errors.New("no such resource")
}

// mimeOf is the type of a file by its name.
func mimeOf(name string) string {
	switch path.Ext(name) {
	case ".json":
		return mimeJSON
	case ".md":
		return mimeMarkdown
	}
	return "text/plain"
}
