package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
)

// The verdicts on a cluster, from best to worst. What could not be looked at is
// unknown, which is worse than degraded: it is never taken for healthy.
const (
	healthy   = "healthy"
	degraded  = "degraded"
	unknown   = "unknown"
	unhealthy = "unhealthy"
)

var verdicts = []string{healthy, degraded, unknown, unhealthy}

type finding struct {
	Code    string `json:"code"`
	Verdict string `json:"verdict" doc:"what the cluster is at best because of it"`
	Object  string `json:"object"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	Fix     *fix   `json:"fix,omitempty"`
}

type health struct {
	Verdict  string    `json:"verdict" doc:"healthy, degraded, unknown or unhealthy"`
	Findings []finding `json:"findings" doc:"worst first"`
	Looked   []string  `json:"looked_at"`
}

// variationMax is the imbalance of leaders from which on it is worth a word.
const variationMax = 0.25

func diagnoseTools() []tool {
	return []tool{
		{
			name: "diagnose_health", title: "Judge the cluster's health", toolset: toolsetDiagnose, risk: ReadOnly, list: "findings",
			doc:    "Judge the whole cluster: quorum, brokers, partitions, operations, balance. Each finding has a remedy. What cannot be read makes it unknown, never healthy.",
			result: typeSchema[health](), run: diagnoseHealth,
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

// observed is what could be read of a cluster; nil is what could not.
type observed struct {
	status     *adminv1.GetStatusResponse
	brokers    []*adminv1.Broker
	operations []*adminv1.Operation
	balance    *adminv1.Balance
	failures   map[string]*failure
}

// judge is the rules: a function of what was read.
func judge(o observed) health {
	h := health{Verdict: healthy, Findings: []finding{}, Looked: []string{}}
	for _, name := range []string{"status", "brokers", "operations", "balance"} {
		if f := o.failures[name]; f != nil {
			h.add(finding{f.Code, unknown, name, "cannot be read: " + f.Message, f.Advice, nil})
		} else {
			h.Looked = append(h.Looked, name)
		}
	}
	if o.status != nil {
		h.quorum(o.status)
		h.partitions(o.status)
	}
	for _, b := range o.brokers {
		h.broker(b)
	}
	for _, op := range o.operations {
		if op.GetState() == adminv1.Operation_BLOCKED {
			h.add(finding{"OPERATION_BLOCKED", degraded, operationName(op.GetOperationId()), describeOperation(op), "remove what blocks it; it goes on by itself", &fix{Tool: "operations_show", Args: map[string]any{"operation_id": operationName(op.GetOperationId())}}})
		}
	}
	if v := o.balance.GetCoefficientOfVariation(); o.balance != nil && v != nil && v.GetValue() >= variationMax {
		h.add(finding{"IMBALANCED", degraded, "leaders", fmt.Sprintf("the coefficient of variation of leaders is %.2f, from %.2f on it is worth a rebalance", v.GetValue(), variationMax), "rebalance", &fix{Tool: "brokers_rebalance", Args: map[string]any{}}})
	}
	slices.SortStableFunc(h.Findings, func(a, b finding) int { return slices.Index(verdicts, b.Verdict) - slices.Index(verdicts, a.Verdict) })
	return h
}

// add notes a finding; the worst one decides.
func (h *health) add(f finding) {
	h.Findings = append(h.Findings, f)
	h.Verdict = verdicts[max(slices.Index(verdicts, h.Verdict), slices.Index(verdicts, f.Verdict))]
}

func (h *health) quorum(s *adminv1.GetStatusResponse) {
	members := &fix{Tool: "cluster_members", Args: map[string]any{}}
	switch {
	case s.GetControllerId() == 0:
		h.add(finding{"NO_CONTROLLER", unhealthy, "quorum", "no controller is known: nothing can be changed", "bring a majority of the voters back", members})
	case s.GetAnsweredBy() != s.GetControllerId():
		h.add(finding{"NOT_CURRENT", unknown, "quorum", fmt.Sprintf("this is the view of node %d, not of the controller, node %d, which does not answer", s.GetAnsweredBy(), s.GetControllerId()), "look again, at another endpoint", members})
	}
	if !s.GetReady() {
		h.add(finding{"NODE_NOT_READY", degraded, fmt.Sprintf("node %d", s.GetSelfNodeId()), "the node that was asked is not ready: " + strings.Join(s.GetNotReadyReasons(), "; "), "wait, or ask another one", nil})
	}
	if n := len(s.GetVoters()); n < 3 {
		h.add(finding{"FEW_VOTERS", degraded, "quorum", fmt.Sprintf("with %s the loss of one stops all changes", plural(n, "voter", "voters")), "add nodes up to three voters", nil})
	}
}

func (h *health) partitions(s *adminv1.GetStatusResponse) {
	topics := &fix{Tool: "topics_list", Args: map[string]any{}}
	if n := s.GetOfflinePartitions().GetValue(); n > 0 {
		h.add(finding{"PARTITIONS_OFFLINE", unhealthy, "partitions", fmt.Sprintf("%s without a leader: cannot be written or read", plural(int(n), "partition is", "partitions are")), "bring a broker with an in-sync replica back", topics})
	}
	if n := s.GetUnderReplicatedPartitions().GetValue(); n > 0 {
		h.add(finding{"UNDER_REPLICATED", degraded, "partitions", fmt.Sprintf("%s less in-sync replicas than wanted", plural(int(n), "partition has", "partitions have")), "wait while replicas catch up; if it stays, see which brokers are fenced", topics})
	}
}

func (h *health) broker(b *adminv1.Broker) {
	object := fmt.Sprintf("broker %d", b.GetBrokerId())
	if b.GetFenced() {
		h.add(finding{"NODE_FENCED", degraded, object, "is fenced: it is not seen alive, and leads nothing", "start it again, or look why it does not answer", nil})
	}
	switch b.GetState() {
	case adminv1.Node_JOINING:
		h.add(finding{"NODE_NOT_ACTIVE", degraded, object, "has joined and takes no replicas yet", "promote and activate it", &fix{Tool: "brokers_activate", Args: map[string]any{"broker_id": b.GetBrokerId()}}})
	case adminv1.Node_CORDONED, adminv1.Node_DRAINING, adminv1.Node_DRAINED, adminv1.Node_LEAVING:
		h.add(finding{"NODE_NOT_ACTIVE", degraded, object, "is " + b.GetState().String() + " and takes no replicas", "finish what was begun, or activate it", &fix{Tool: "brokers_certificate", Args: map[string]any{"broker_id": b.GetBrokerId()}}})
	case adminv1.Node_STATE_UNSPECIFIED:
		h.add(finding{"UNKNOWN_HEALTH", unknown, object, "has no known state", "look again", nil})
	}
	if b.GetBytes() == nil && !b.GetFenced() {
		h.add(finding{"UNKNOWN_HEALTH", unknown, object, "has not reported its disk", "look again in a few seconds", nil})
	}
}

// observe reads everything at once: each part may take long to fail.
func (s *Server) observe(ctx context.Context, in input) observed {
	o := observed{failures: map[string]*failure{}}
	var mu sync.Mutex // guards o
	var all sync.WaitGroup
	look := func(name string, read func() (func(), error)) {
		all.Go(func() {
			keep, err := read()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				o.failures[name] = failureOf(err, in)
				return
			}
			keep()
		})
	}
	look("status", func() (func(), error) {
		r, err := s.admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
		return func() { o.status = r }, err
	})
	look("brokers", func() (func(), error) {
		r, err := s.admin.Brokers.ListBrokers(ctx, &adminv1.ListBrokersRequest{})
		return func() { o.brokers = r.GetBrokers() }, err
	})
	look("operations", func() (func(), error) {
		r, err := s.admin.Operations.ListOperations(ctx, &adminv1.ListOperationsRequest{Live: true})
		return func() { o.operations = r.GetOperations() }, err
	})
	look("balance", func() (func(), error) {
		r, err := s.admin.Brokers.GetBalance(ctx, &adminv1.GetBalanceRequest{})
		return func() { o.balance = r.GetBalance() }, err
	})
	all.Wait()
	return o
}

func diagnoseHealth(ctx context.Context, s *Server, in input) (*answer, error) {
	o := s.observe(ctx, in)
	h := judge(o)
	a := &answer{body: h, summary: fmt.Sprintf("The cluster is %s; %s", h.Verdict, plural(len(h.Findings), "finding", "findings"))}
	for i := range h.Findings {
		if f := h.Findings[i].Fix; f != nil && !s.offers(f.Tool) {
			h.Findings[i].Fix = nil
		}
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
