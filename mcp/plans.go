package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// PlanMax is how long a plan_id is valid.
const PlanMax = 10 * time.Minute

// The statuses of a planned tool's result.
const (
	statusPlanned = "planned"
	statusDone    = "done"
	// planList is where the moves of a plan are in a result; they are paged.
	planList = "effect.what.moves"
)

// effect is what a planned tool would do now.
type effect struct {
	// what is shown. It holds the same on every call while nothing changes: no
	// time, no estimate.
	what any
	// note is shown and may change from call to call.
	note any
	// revision is the placement revision of the cluster that it was planned on.
	revision uint64
	// controller is who has that role in the plan, where the plan takes it away.
	controller int32
	summary    string
	// blocked says why it cannot be done now; no plan_id is given then.
	blocked *failure
}

// planner gives out plan_ids and judges them. A plan_id is a statement under a
// key of this process, so nothing is stored, and after a restart none is valid.
type planner struct {
	key []byte
	now func() time.Time
}

// id is expiry, placement revision, hashes of arguments and effect, and a seal.
func (p *planner) id(in input, e *effect, expires time.Time) string {
	fields := []string{strconv.FormatInt(expires.Unix(), 36), strconv.FormatUint(e.revision, 36), hash(in.tool.name, in.given()), hash(e.what)}
	body := strings.Join(fields, ".")
	return "plan." + body + "." + p.seal(body)
}

func (p *planner) seal(body string) string {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil)[:12])
}

// hash identifies values by their JSON, whose maps are sorted.
func hash(values ...any) string {
	sum := sha256.Sum256(mustJSON(values))
	return hex.EncodeToString(sum[:8])
}

// check says whether the plan that an id stands for still holds, given what
// would be done now.
func (p *planner) check(id string, in input, now *effect) error {
	replan := &fix{Tool: in.tool.name, Args: in.given(), Why: "shows the plan as it is now and gives a new plan_id"}
	body, isPlan := strings.CutPrefix(id, "plan.")
	at := strings.LastIndex(body, ".")
	if !isPlan || at < 0 || !hmac.Equal([]byte(body[at+1:]), []byte(p.seal(body[:at]))) {
		return &failure{Code: codePlanUnknown, Message: "this plan_id was not given out by this process", Got: abridge(id), Expected: "the plan_id of a plan of " + in.tool.name, Fix: replan}
	}
	fields := strings.Split(body[:at], ".")
	seconds, _ := strconv.ParseInt(fields[0], 36, 64)
	revision, _ := strconv.ParseUint(fields[1], 36, 64)
	expires := time.Unix(seconds, 0)
	switch {
	case fields[2] != hash(in.tool.name, in.given()):
		return &failure{Code: codePlanArguments, Message: "this plan is of another tool or of other arguments", Got: abridge(string(mustJSON(in.given()))), Expected: "the tool and the arguments that were planned", Fix: replan}
	case !p.now().Before(expires):
		return &failure{Code: codePlanExpired, Message: "this plan is too old", Got: "valid until " + expires.UTC().Format(time.RFC3339), Expected: fmt.Sprintf("a plan of the last %s", PlanMax), Fix: replan}
	case revision != now.revision:
		return &failure{Code: codePlanDrifted, Message: "the placement of the cluster has changed since the plan", Got: fmt.Sprintf("a plan of placement revision %d", revision), Expected: fmt.Sprintf("a plan of placement revision %d, the present one", now.revision), Fix: replan}
	case fields[3] != hash(now.what):
		return &failure{Code: codePlanDrifted, Message: "the same call would do something else now", Got: "a plan with another effect", Expected: "now: " + now.summary, Fix: replan}
	}
	return nil
}

// held refuses a call of a tool that asks for a plan only sometimes: without a
// plan_id, which the refusal gives, and with one whose plan does not hold. The plan
// is of subject, which several tools may do.
func (p *planner) held(in, subject input, now *effect, why string) error {
	call := fix{Tool: in.tool.name, Args: in.given()}
	id := in.text("plan_id")
	if id == "" {
		expires := p.now().Add(PlanMax)
		id = p.id(subject, now, expires)
		call.Args["plan_id"], call.Why = id, doesIt
		return &failure{
			Code: codePlanRequired, Message: why, Got: "no plan_id", Expected: "the plan_id of this plan: " + now.summary, Fix: &call,
			Plan: map[string]any{"effect": now.what, "placement_revision": fmt.Sprint(now.revision), "plan_id": id, "expires_at": expires.UTC().Format(time.RFC3339)},
		}
	}
	err := p.check(id, subject, now)
	if f, ok := err.(*failure); ok {
		call.Why = f.Fix.Why
		f.Fix = &call
	}
	return err
}

// doesIt says why a planned call is made again.
const doesIt = "does it, while the plan holds; ask the person first unless they have said so"

// planned runs a tool that needs a plan: without a plan_id it shows the plan,
// with one that holds it acts.
func (s *Server) planned(ctx context.Context, in input) (*answer, error) {
	now, err := in.tool.plan(ctx, s, in)
	if err != nil {
		return nil, err
	}
	id := in.text("plan_id")
	if id != "" {
		if err := s.plans.check(id, in, now); err != nil {
			return nil, err
		}
	}
	if now.blocked != nil {
		return nil, now.blocked
	}
	if id != "" {
		in.revision, in.controller = now.revision, now.controller
		return in.tool.run(ctx, s, in)
	}
	expires := s.plans.now().Add(PlanMax)
	id = s.plans.id(in, now, expires)
	args := in.given()
	args["plan_id"] = id
	return &answer{
		body: map[string]any{
			"status": statusPlanned, "plan_id": id, "expires_at": expires.UTC().Format(time.RFC3339),
			"effect": map[string]any{"what": now.what, "note": now.note, "placement_revision": strconv.FormatUint(now.revision, 10)},
		},
		summary: "Planned, nothing was changed: " + now.summary,
		next:    []step{{in.tool.name, args, doesIt}},
	}, nil
}
