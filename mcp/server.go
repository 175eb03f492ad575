package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	protocol "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios"
)

// actorName is who the audit of a cluster says it was.
const actorName = "mcp"

// CallMax bounds a call. Some hosts give up after a minute.
const CallMax = 25 * time.Second

// Config of a Server.
type Config struct {
	// Filter chooses the tools.
	Filter Filter
	// Endpoints are admin addresses of the cluster, as client.Options has them.
	Endpoints []string
	// RunsDir is the directory of the runs of scenarios. It becomes absolute.
	RunsDir string
	// Runner is the command that runs the scenario command, such as
	// {"/usr/bin/ister", "scenario"}.
	Runner []string
	// Audit takes one line for each call; nil: none is kept.
	Audit io.Writer
	// Warn is told what a person should know; nil: nobody is.
	Warn func(string)
	// Version of this build.
	Version string
	// Now is the clock; nil: the system's.
	Now func() time.Time

	// checkResults holds results to their schemas; for tests, since a change
	// that was made must not be reported as an error.
	checkResults bool
}

// Server is the tools, resources and prompts, behind any transport.
type Server struct {
	config Config
	mcp    *server.MCPServer
	known  []tool // all that the filter permits, whether on or off
	admin  *client.Client
	plans  *planner
	audit  *auditLog
	skills map[string]skill
	// stepTable has the steps of the shipped scenarios, by scenario and step.
	stepTable map[string]map[string]scenarios.StepTool

	mu    sync.RWMutex
	tools map[string]*tool // guarded by mu: those that are offered
}

// instructions are what a client tells its model about all of it.
const instructions = `Ister is a Kafka-protocol message broker. Scenarios start their own brokers on this machine, run steps under load and judge what clients saw; the other tools administer the cluster at the admin endpoint.
A scenario: scenario_list, scenario_show, scenario_plan, scenario_start, then scenario_wait with the returned run_id until ended is true, then scenario_report. A run goes on without you: come back with its run_id at any time. Step by step: scenario_start with pause each, then scenario_step, or the step tools after toolsets_enable; each result says what comes next.
A cluster: diagnose_health first. Tools that can disturb or destroy show a plan and a plan_id when called without one; call again with it to act.
Every error says code, got, expected, and often fix: the call that repairs. Results may have next: the calls that make sense now.`

// New makes a server; it connects to nothing yet.
func New(config Config) (*Server, error) {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Warn == nil {
		config.Warn = func(string) {}
	}
	runsDir, err := filepath.Abs(config.RunsDir)
	if err != nil {
		return nil, fmt.Errorf("find the runs directory: %w", err)
	}
	config.RunsDir = runsDir
	admin, err := client.New(client.Options{Endpoints: config.Endpoints, Actor: actorName, RetryFor: 8 * time.Second, ChangeTimeout: 20 * time.Second})
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make a key for plans: %w", err)
	}
	s := &Server{
		config: config, admin: admin, plans: &planner{key: key, now: config.Now}, audit: &auditLog{out: config.Audit, fault: config.Warn}, tools: map[string]*tool{},
		stepTable: map[string]map[string]scenarios.StepTool{},
	}
	if s.skills, err = readSkills(); err != nil {
		return nil, err
	}
	options := []server.ServerOption{
		server.WithTitle("Ister"), server.WithInstructions(instructions), server.WithToolCapabilities(true), server.WithResourceCapabilities(false, false),
		server.WithPromptCapabilities(false), server.WithCompletions(), server.WithResourceRecovery(), server.WithRecovery(),
		server.WithPromptCompletionProvider(completer{s}), server.WithResourceCompletionProvider(completer{s}),
		server.WithCacheHints(0, protocol.CacheScopePrivate), server.WithPaginationLimit(100),
	}
	if config.checkResults {
		options = append(options, server.WithOutputSchemaValidation())
	}
	s.mcp = server.NewMCPServer("ister", config.Version, options...)
	if err := s.addTools(); err != nil {
		return nil, err
	}
	if err := s.addResources(); err != nil {
		return nil, err
	}
	return s, s.addPrompts()
}

// addTools makes the table and offers the toolsets that are on.
func (s *Server) addTools() error {
	steps, err := scenarios.StepTools()
	if err != nil {
		return err
	}
	for _, one := range steps {
		if s.stepTable[one.Scenario] == nil {
			s.stepTable[one.Scenario] = map[string]scenarios.StepTool{}
		}
		s.stepTable[one.Scenario][one.Step] = one
	}
	rows, err := stepTools()
	if err != nil {
		return err
	}
	toolsets, on := []string{}, []string{}
	for _, row := range append(table(), rows...) {
		if row.name == startName && s.config.Filter.commands() {
			row = withCommands(row)
		}
		if !slices.Contains(toolsets, row.toolset) {
			toolsets = append(toolsets, row.toolset)
		}
		if s.config.Filter.permits(&row) {
			s.known = append(s.known, row)
		}
	}
	if err := checkToolsets(s.config.Filter.Toolsets, toolsets); err != nil {
		return err
	}
	for _, name := range toolsets {
		if s.config.Filter.toolsetOn(name) {
			on = append(on, name)
		}
	}
	s.enable(on...)
	return nil
}

// Close drops idle connections. Runs go on.
func (s *Server) Close() { s.admin.Close() }

// call is everything around a handler: arguments, time, plan, bounds, audit.
func (s *Server) call(ctx context.Context, t *tool, request protocol.CallToolRequest) *protocol.CallToolResult {
	start := s.config.Now()
	ctx, cancel := context.WithTimeout(ctx, CallMax)
	defer cancel()
	raw := request.Params.RawArguments
	if len(raw) == 0 && request.Params.Arguments != nil { // not from the wire
		raw = mustJSON(request.Params.Arguments)
	}
	in, err := validate(t, raw)
	var result *protocol.CallToolResult
	if err == nil {
		result, err = s.handle(ctx, in)
	}
	e := entry{At: start.UTC(), Actor: actor(ctx), Tool: t.name, Risk: t.risk, Args: redacted(in.values), Hash: hash(string(raw)), Outcome: "done"}
	if err != nil {
		f := failureOf(err, in)
		result, e.Outcome, e.Code = s.errorResult(f), "error", f.Code
	} else if t.planned() && in.text("plan_id") == "" {
		e.Outcome = "planned"
	}
	e.TookMS = s.config.Now().Sub(start).Milliseconds()
	s.audit.write(e)
	return result
}

// handle runs the handler. A panic in it is a bug of one tool, not the end of all.
func (s *Server) handle(ctx context.Context, in input) (result *protocol.CallToolResult, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			s.config.Warn(fmt.Sprintf("%s: %v\n%s", in.tool.name, bug, debug.Stack()))
			err = fmt.Errorf("bug in %s: %v", in.tool.name, bug)
		}
	}()
	run := in.tool.run
	if in.tool.planned() {
		run = func(ctx context.Context, s *Server, in input) (*answer, error) { return s.planned(ctx, in) }
	}
	a, err := run(ctx, s, in)
	if err != nil {
		return nil, err
	}
	return s.result(in.tool, in, a)
}

type remoteKey struct{}

// actor names who calls: the transport, where from, and the client's own name.
func actor(ctx context.Context) string {
	name := ""
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.ClientInfo != nil {
		name = info.ClientInfo.Name
	} else if session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo); ok {
		name = session.GetClientInfo().Name
	}
	from := "stdio"
	if remote, ok := ctx.Value(remoteKey{}).(string); ok {
		from = "http " + remote
	}
	if name == "" {
		return from
	}
	return from + " " + abridge(name)
}

// Tools lists the definitions that clients see, by name.
func (s *Server) Tools() ([]byte, error) {
	definitions := map[string]protocol.Tool{}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, t := range s.tools {
		definitions[name] = t.definition()
	}
	return json.MarshalIndent(definitions, "", "  ")
}
