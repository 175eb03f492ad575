package health

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/ister-mq/ister/admin/adminv1"
)

// Severity of a finding.
type Severity string

// The severities, gravest first. Unknown: a fact that is needed could not be
// read; it is neither fine nor bad.
const (
	Error   Severity = "error"   // a person must act
	Warning Severity = "warning" // less than there should be; the cluster serves
	Unknown Severity = "unknown"
	Info    Severity = "info" // worth a look, and no reason to act
)

// Status of a cluster.
type Status string

// The statuses.
const (
	Healthy   Status = "healthy"   // everything was read, and is as it should be
	Degraded  Status = "degraded"  // there are warnings
	Unhealthy Status = "unhealthy" // there are errors
	NotKnown  Status = "unknown"   // nothing bad was seen, and not everything could be read
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Object   string   `json:"object"`
	Message  string   `json:"message"`
	Remedy   string   `json:"remedy"`
}

// Check is one question and its answer in a few words.
type Check struct {
	Name   string   `json:"name"`
	Status Severity `json:"status"` // "ok", or its gravest finding's
	Says   string   `json:"says"`
}

// OK is the status of a check without a finding that counts.
const OK Severity = "ok"

// Report is the answer. Numbers that are not known are null.
type Report struct {
	Status     Status    `json:"status"`
	CheckedAt  time.Time `json:"checked_at"`
	ClusterID  string    `json:"cluster_id"`
	Controller int32     `json:"controller_id"` // 0: none is known

	Checks   []Check   `json:"checks"`
	Findings []Finding `json:"findings"` // gravest first

	Brokers         *int     `json:"brokers"`
	BrokersAlive    *int     `json:"brokers_alive"` // not fenced
	Voters          *int     `json:"voters"`
	VotersAlive     *int     `json:"voters_alive"`
	Topics          *int     `json:"topics"`
	Partitions      *int     `json:"partitions"`
	Offline         *int     `json:"offline_partitions"`
	UnderReplicated *int     `json:"under_replicated_partitions"`
	Undersized      *int     `json:"undersized_partitions"`
	LeadersCV       *float64 `json:"leaders_coefficient_of_variation"`
	DiskFree        *float64 `json:"least_disk_free_percent"`
	ClockApartMS    *int64   `json:"clocks_apart_ms"` // to about a second
	Versions        []string `json:"versions"`
}

// The limits of what is fine.
const (
	leadersCVMax   = 0.5
	leadersApart   = 2  // fewer leaders apart are no imbalance
	diskLowPercent = 10 // below it: warning
	diskOutPercent = 3  // below it: error
	clockApartMax  = 3 * time.Second
)

// Judge says how the cluster is. It is a function of the facts alone.
func Judge(f Facts) Report {
	j := &judge{facts: f, report: Report{CheckedAt: f.At, Checks: []Check{}, Findings: []Finding{}, Versions: []string{}}}
	for _, c := range []struct {
		name string
		run  func() string
	}{
		{"controller", j.controller}, {"voters", j.voters}, {"brokers", j.brokers}, {"partitions", j.partitions}, {"balance", j.balance},
		{"operations", j.operations}, {"replicas", j.replicas}, {"disk", j.disk}, {"clocks", j.clocks}, {"versions", j.versions},
	} {
		before := len(j.report.Findings)
		says := c.run()
		worst := OK
		for _, found := range j.report.Findings[before:] {
			if rank(found.Severity) < rank(worst) && found.Severity != Info {
				worst = found.Severity
			}
		}
		j.report.Checks = append(j.report.Checks, Check{c.name, worst, says})
	}
	found := j.report.Findings
	sort.SliceStable(found, func(a, b int) bool { return rank(found[a].Severity) < rank(found[b].Severity) })
	j.report.Status = statusOf(found)
	return j.report
}

func rank(s Severity) int {
	for i, known := range []Severity{Error, Warning, Unknown, Info} {
		if s == known {
			return i
		}
	}
	return 4
}

func statusOf(findings []Finding) Status {
	status := Healthy
	for _, f := range findings {
		switch {
		case f.Severity == Error:
			return Unhealthy
		case f.Severity == Warning:
			status = Degraded
		case f.Severity == Unknown && status == Healthy:
			status = NotKnown
		}
	}
	return status
}

type judge struct {
	facts  Facts
	report Report
}

func (j *judge) found(severity Severity, code, object, remedy, format string, args ...any) {
	j.report.Findings = append(j.report.Findings, Finding{Code: code, Severity: severity, Object: object, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// unread notes that a question had no answer.
func (j *judge) unread(question string) string {
	why := j.facts.Unread[question]
	if why == "" {
		why = "it was not asked"
	}
	j.found(Unknown, "NOT_READ", question, "ask again, or ask another broker with --endpoint", "%s could not be read: %s", question, why)
	return "not known"
}

// count is "1 broker" or "3 brokers".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func node(id int32) string { return fmt.Sprintf("node %d", id) }

// controller checks that every broker that answered names one cluster and one
// controller.
func (j *judge) controller() string {
	views, clusters := map[int32][]int32{}, map[string][]int32{}
	for _, n := range j.facts.Nodes {
		if n.Status == nil {
			continue
		}
		views[n.Status.GetControllerId()] = append(views[n.Status.GetControllerId()], n.ID)
		clusters[n.Status.GetClusterId()] = append(clusters[n.Status.GetClusterId()], n.ID)
		j.report.ClusterID = n.Status.GetClusterId()
	}
	if len(clusters) > 1 {
		j.found(Error, "CLUSTERS_DIFFER", "cluster", "name the endpoints of one cluster only", "the brokers asked belong to different clusters: %s", grouped(clusters))
	}
	if len(views) == 0 {
		return j.unread("status")
	}
	for _, id := range sortedIDs(views[0]) {
		j.found(Error, "NO_CONTROLLER", node(id), "a majority of the voters must run and reach each other: start those that do not; `cluster status` lists the voters", "%s knows no controller", node(id))
	}
	delete(views, 0)
	switch len(views) {
	case 0:
		return "none is known"
	case 1:
		for id := range views {
			j.report.Controller = id
		}
		return node(j.report.Controller) + ", so say all that were asked"
	}
	j.found(Error, "CONTROLLERS_DIFFER", "controller", "ask again in a few seconds; if it stays, look for brokers that are cut off from others", "brokers name different controllers: %s", grouped(views))
	return "different ones are named"
}

// grouped is "2 (say nodes 1, 3); 4 (says node 5)".
func grouped[K int32 | string](groups map[K][]int32) string {
	var parts []string
	for key, ids := range groups {
		var names []string
		for _, id := range sortedIDs(ids) {
			names = append(names, fmt.Sprint(id))
		}
		parts = append(parts, fmt.Sprintf("%v (says node %s)", key, strings.Join(names, ", ")))
	}
	sort.Strings(parts)
	return strings.Join(parts, "; ")
}

func sortedIDs(ids []int32) []int32 {
	out := append([]int32(nil), ids...)
	sort.Slice(out, func(a, b int) bool { return out[a] < out[b] })
	return out
}

// voters checks that a majority is alive, with one to spare.
func (j *judge) voters() string {
	if j.facts.Members == nil {
		return j.unread("members")
	}
	total, alive := 0, 0
	for _, m := range j.facts.Members.GetMembers() {
		switch m.GetRole() {
		case adminv1.Member_VOTER:
			total++
			if !m.GetFenced() {
				alive++
			}
		case adminv1.Member_LEARNER:
			j.found(Info, "LEARNER", node(m.GetNodeId()), fmt.Sprintf("`cluster promote-node --node-id %d` when it has caught up", m.GetNodeId()), "%s does not vote yet", node(m.GetNodeId()))
		}
	}
	j.report.Voters, j.report.VotersAlive = &total, &alive
	majority := total/2 + 1
	switch {
	case alive < majority:
		j.found(Error, "QUORUM_LOST", "voters", "start the voters that do not run", "%d of %d voters are alive, %d are needed", alive, total, majority)
	case total > 2 && alive == majority:
		j.found(Warning, "QUORUM_WITHOUT_SPARE", "voters", "start the voters that do not run before anything else is stopped", "%d of %d voters are alive: the loss of one more stops changes and elections", alive, total)
	case total <= 2:
		j.found(Info, "QUORUM_SMALL", "voters", "three brokers go on when one is lost", "%s: the loss of one stops changes and elections", count(total, "voter"))
	}
	if j.facts.Members.GetMembershipChangePending() {
		j.found(Info, "MEMBERSHIP_CHANGE_PENDING", "voters", "it ends by itself; another change waits", "a change of members is under way")
	}
	return fmt.Sprintf("%d of %d alive, %d needed", alive, total, majority)
}

// brokers checks that each is alive, ready and active.
func (j *judge) brokers() string {
	if j.facts.Brokers == nil {
		return j.unread("brokers")
	}
	nodes := map[int32]Node{}
	for _, n := range j.facts.Nodes {
		nodes[n.ID] = n
	}
	total, alive := len(j.facts.Brokers), 0
	for _, b := range j.facts.Brokers {
		id, object := b.GetBrokerId(), node(b.GetBrokerId())
		n, asked := nodes[id]
		switch {
		case b.GetFenced():
			j.found(Error, "BROKER_FENCED", object, "start it again, or read its log; if its disk is lost: `cluster remove-node` and a new broker with --join", "%s at %s is not seen alive: it leads nothing", object, orUnknown(b.GetEndpoints().GetAdmin()))
			continue
		case !asked || n.Status == nil:
			j.found(Unknown, "BROKER_NOT_ASKED", object, "name its admin address with --endpoint, as it is reached from here", "%s is alive for the controller, and did not answer here at %s: %s", object, orUnknown(b.GetEndpoints().GetAdmin()), orUnknown(n.Err))
		case !n.Status.GetReady():
			j.found(Error, "BROKER_NOT_READY", object, "wait for what it names; if it stays, read its log", "%s is not ready: %s", object, strings.Join(n.Status.GetNotReadyReasons(), "; "))
		}
		alive++
		if state := b.GetState(); state != adminv1.Node_ACTIVE {
			j.found(Info, "BROKER_NOT_ACTIVE", object, fmt.Sprintf("`brokers activate --broker-id %d`, if it is to take partitions", id), "%s is %s: it takes no new replicas", object, strings.ToLower(state.String()))
		}
	}
	j.report.Brokers, j.report.BrokersAlive = &total, &alive
	return fmt.Sprintf("%d of %d alive", alive, total)
}

func orUnknown(text string) string {
	if text == "" {
		return "an address that is not known"
	}
	return text
}

// partitions checks that each has a leader and all its copies in sync.
func (j *judge) partitions() string {
	if j.facts.Topics == nil {
		return j.unread("topics")
	}
	topics, partitions, offline, under, undersized := len(j.facts.Topics), 0, 0, 0, 0
	for _, t := range j.facts.Topics {
		partitions += int(t.GetPartitionCount())
		offline += int(t.GetOfflinePartitions())
		under += int(t.GetUnderReplicatedPartitions())
		undersized += int(t.GetUndersizedPartitions())
		j.topic(t)
	}
	j.report.Topics, j.report.Partitions, j.report.Offline, j.report.UnderReplicated, j.report.Undersized = &topics, &partitions, &offline, &under, &undersized
	return fmt.Sprintf("%d, %d offline, %d under-replicated, %d undersized", partitions, offline, under, undersized)
}

// topic tells of one topic at most one thing, the gravest.
func (j *judge) topic(t *adminv1.Topic) {
	name := t.GetName()
	below := 0
	for _, p := range t.GetPartitions() { // described only where something is wrong
		if p.GetLeader() != 0 && len(p.GetIsr()) < len(p.GetReplicas()) && len(p.GetIsr()) < int(t.GetMinInsyncReplicas()) {
			below++
		}
	}
	switch {
	case t.GetOfflinePartitions() > 0:
		j.found(Error, "PARTITIONS_OFFLINE", name, "start the brokers that hold its copies: `topics describe "+name+"`", "%d of %d partitions have no leader", t.GetOfflinePartitions(), t.GetPartitionCount())
	case below > 0:
		j.found(Error, "PARTITIONS_BELOW_MIN_ISR", name, "start the brokers that hold its copies: `topics describe "+name+"`", "%d of %d partitions refuse acks=all: fewer than %d copies are in sync", below, t.GetPartitionCount(), t.GetMinInsyncReplicas())
	case t.GetUnderReplicatedPartitions() > 0:
		j.found(Warning, "PARTITIONS_UNDER_REPLICATED", name, "wait while copies catch up; if it stays, start the brokers that hold them", "%d of %d partitions have a copy that is not in sync", t.GetUnderReplicatedPartitions(), t.GetPartitionCount())
	case t.GetUndersizedPartitions() > 0 && j.facts.Brokers != nil && len(j.facts.Brokers) < int(t.GetReplicationFactor()):
		j.found(Info, "TOO_FEW_BROKERS", name, "copies are added when brokers are: `cluster add-node`", "%d copies are wanted, for %s", t.GetReplicationFactor(), count(len(j.facts.Brokers), "broker"))
	case t.GetUndersizedPartitions() > 0:
		j.found(Warning, "PARTITIONS_UNDERSIZED", name, "copies are added by themselves; if it stays, see `brokers list` for brokers that are not active", "%d of %d partitions have fewer than the %d copies that are wanted", t.GetUndersizedPartitions(), t.GetPartitionCount(), t.GetReplicationFactor())
	}
}

// balance checks how leaders are spread.
func (j *judge) balance() string {
	b := j.facts.Balance
	if b == nil {
		return j.unread("balance")
	}
	cv := b.GetCoefficientOfVariation()
	if cv == nil {
		return "nothing is placed"
	}
	value := cv.GetValue()
	j.report.LeadersCV = &value
	least, most := int32(0), int32(0)
	for i, l := range b.GetBrokers() {
		if i == 0 || l.GetLeaders() < least {
			least = l.GetLeaders()
		}
		most = max(most, l.GetLeaders())
	}
	if value > leadersCVMax && most-least > leadersApart {
		j.found(Info, "LEADERS_UNBALANCED", "brokers", "`brokers rebalance --dry-run` shows what would change", "brokers lead between %d and %d partitions", least, most)
	}
	return fmt.Sprintf("coefficient of variation of leaders %.2f", value)
}

// operations looks for those that a person has to help.
func (j *judge) operations() string {
	if j.facts.Operations == nil {
		return j.unread("operations")
	}
	live, blocked := 0, 0
	for _, op := range j.facts.Operations.GetOperations() {
		switch op.GetState() {
		case adminv1.Operation_BLOCKED:
			live++
			blocked++
			name := fmt.Sprintf("op-%d", op.GetOperationId())
			j.found(Warning, "OPERATION_BLOCKED", name, "`cluster operations show "+name+"` names what it waits for; `cluster operations cancel "+name+"` gives it up", "%s (%s of %s) is blocked: %s %s", name, strings.ToLower(op.GetKind().String()), op.GetSubject(), op.GetReason(), op.GetMessage())
		case adminv1.Operation_RUNNING, adminv1.Operation_CANCELLING:
			live++
		}
	}
	return fmt.Sprintf("%d under way, %d blocked", live, blocked)
}
