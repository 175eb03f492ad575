package mcp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/admin/health"
)

// diagnosed is the report of `ister admin cluster health`, with calls that lead on.
type diagnosed struct {
	health.Report
	Findings []finding `json:"findings" doc:"gravest first: error, warning, unknown (could not be read), info"`
}

type finding struct {
	health.Finding
	Fix *fix `json:"fix,omitempty"`
}

// healthMax bounds the look at a cluster: what has not answered by then is unknown.
const healthMax = 20 * time.Second

func diagnoseTools() []tool {
	return []tool{
		{
			name: "diagnose_health", title: "Judge the cluster's health", toolset: toolsetDiagnose, risk: ReadOnly, list: "findings",
			doc:    "Judge the whole cluster: every broker is asked about controller, voters, partitions, balance, operations, replicas, disk, clock and version. Each finding has a remedy and often fix, the call that leads on. What cannot be read is unknown, never healthy. The same as `ister admin cluster health`.",
			result: typeSchema[diagnosed](), run: diagnoseHealth,
		},
		{
			name: "diagnose_removal", title: "What blocks a removal", toolset: toolsetDiagnose, risk: ReadOnly, list: "blockers",
			doc:       "Say whether a node can be removed safely now and, if not, every blocker with its remedy, and what it still holds.",
			arguments: []argument{nodeArgument("node_id", "the node")},
			result: typeSchema[struct {
				Safe     bool           `json:"safe_to_remove"`
				Blockers []blocker      `json:"blockers"`
				Holds    map[string]any `json:"certificate"`
			}](), run: diagnoseRemoval,
		},
		{
			name: "diagnose_machine", title: "What this machine lacks", toolset: toolsetDiagnose, risk: ReadOnly, list: "findings",
			doc: "Say what is missing on this machine to run scenarios, and how to get it.",
			result: typeSchema[struct {
				Findings []machineFinding `json:"findings"`
			}](), run: diagnoseMachine,
		},
	}
}

// leads are the calls that lead on from a finding; one that is not here has its
// remedy only. What a call takes is the object of the finding.
var leads = map[string]repair{
	"NO_CONTROLLER":               {tool: "cluster_members", why: "see which voters are there"},
	"CONTROLLERS_DIFFER":          {tool: "cluster_members", why: "see what this one says"},
	"QUORUM_LOST":                 {tool: "cluster_members", why: "see which voters are there"},
	"QUORUM_WITHOUT_SPARE":        {tool: "cluster_members", why: "see which voters are there"},
	"MEMBERSHIP_CHANGE_PENDING":   {tool: "cluster_members", why: "see who joins or leaves"},
	"LEARNER":                     {tool: "cluster_promote_node", takes: "node_id", why: "if it is to vote, and has caught up"},
	"BROKER_FENCED":               {tool: "brokers_list", why: "see what it held; a person starts it again"},
	"BROKER_NOT_ACTIVE":           {tool: "brokers_activate", takes: "broker_id", why: "if it is to take replicas"},
	"PARTITIONS_OFFLINE":          {tool: "topics_describe", takes: "name", why: "see which brokers hold its copies"},
	"PARTITIONS_BELOW_MIN_ISR":    {tool: "topics_describe", takes: "name", why: "see which brokers hold its copies"},
	"PARTITIONS_UNDERSIZED":       {tool: "topics_describe", takes: "name", why: "see which brokers hold its copies"},
	"PARTITIONS_UNDER_REPLICATED": {tool: "topics_describe", takes: "name", why: "see which brokers hold its copies"},
	"LEADERS_UNBALANCED":          {tool: "brokers_rebalance", why: "shows the plan of a rebalance"},
	"OPERATION_BLOCKED":           {tool: "operations_show", takes: "operation_id", why: "see what it waits for"},
}

// lead is the call that leads on from a finding, or nil.
func lead(f health.Finding) *fix {
	r, isThere := leads[f.Code]
	if !isThere {
		return nil
	}
	call := &fix{Tool: r.tool, Args: map[string]any{}, Why: r.why}
	switch r.takes {
	case "node_id", "broker_id":
		id, err := strconv.ParseInt(strings.TrimPrefix(f.Object, "node "), 10, 32)
		if err != nil {
			return nil
		}
		call.Args[r.takes] = id
	case "name", "operation_id":
		call.Args[r.takes] = f.Object
	}
	return call
}

func diagnoseHealth(ctx context.Context, s *Server, _ input) (*answer, error) {
	bounded, cancel := context.WithTimeout(ctx, healthMax)
	defer cancel()
	facts, err := health.Gather(bounded, s.config.Endpoints, actorName)
	report := health.Judge(facts)
	var down *client.Unreachable
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &down): // all that is not known has one cause
		report.Findings = []health.Finding{{Code: codeUnreachable, Severity: health.Unknown, Object: "admin API", Message: err.Error(), Remedy: down.Advice()}}
	case err != nil && bounded.Err() == nil:
		return nil, err
	}
	out := diagnosed{Report: report, Findings: []finding{}}
	for _, f := range report.Findings {
		one := finding{f, lead(f)}
		if one.Fix != nil && !s.offers(one.Fix.Tool) {
			one.Fix = nil
		}
		out.Findings = append(out.Findings, one)
	}
	a := &answer{body: out, summary: fmt.Sprintf("The cluster is %s; %s", report.Status, plural(len(out.Findings), "finding", "findings"))}
	if len(out.Findings) > 0 {
		a.summary += fmt.Sprintf(", first %s: %s", out.Findings[0].Code, abridge(out.Findings[0].Message))
	}
	return a, nil
}

func diagnoseRemoval(ctx context.Context, s *Server, in input) (*answer, error) {
	id := in.id("node_id")
	r, blocked, err := s.removal(ctx, id)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"safe_to_remove": r.GetSafeToRemove(), "blockers": []blocker{}}
	held, err := s.admin.Brokers.GetDrainCertificate(ctx, &adminv1.GetDrainCertificateRequest{BrokerId: id})
	switch {
	case err == nil:
		certificate, err := message(held.GetCertificate(), "")
		if err != nil {
			return nil, err
		}
		body["certificate"] = certificate.body
	case client.AsRefusal(err) == nil:
		return nil, err
	}
	if blocked == nil {
		return &answer{body: body, summary: fmt.Sprintf("Node %d can be removed", id), next: []step{{"cluster_remove_node", map[string]any{"node_id": id}, "shows the plan"}}}, nil
	}
	a := &answer{body: body, summary: blocked.Message}
	if len(blocked.Blockers) > 0 {
		body["blockers"] = blocked.Blockers
	}
	if f := blocked.Fix; f != nil {
		a.next = []step{{f.Tool, f.Args, f.Why}}
	}
	return a, nil
}

type machineFinding struct {
	Code    string `json:"code"`
	OK      bool   `json:"ok"`
	Fatal   bool   `json:"fatal"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

func diagnoseMachine(ctx context.Context, s *Server, _ input) (*answer, error) {
	findings := []machineFinding{}
	if err := s.command(ctx, &findings, "doctor"); err != nil {
		return nil, err
	}
	missing := 0
	for _, f := range findings {
		if !f.OK {
			missing++
		}
	}
	return &answer{body: map[string]any{"findings": findings}, summary: fmt.Sprintf("%d of %d things are missing", missing, len(findings))}, nil
}
