package verb

import (
	"context"
	"errors"
	"fmt"

	"github.com/ister-mq/ister/admin/health"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

type healthOutputs struct {
	Status          string   `json:"status" doc:"healthy, degraded, unhealthy or unknown"`
	Errors          int64    `json:"errors" doc:"findings that need a person"`
	Warnings        int64    `json:"warnings" doc:"findings of less than there should be"`
	Unknowns        int64    `json:"unknowns" doc:"facts that could not be read"`
	Codes           []string `json:"codes" doc:"codes of the findings, gravest first"`
	Named           []string `json:"named" doc:"code and object of each, such as BROKER_FENCED node 3"`
	First           string   `json:"first" doc:"the gravest finding in words, none without"`
	Remedy          string   `json:"remedy" doc:"what to do about it, none without"`
	Checks          int64    `json:"checks" doc:"checks made"`
	Passed          int64    `json:"passed" doc:"checks without a finding that counts"`
	Failed          []string `json:"failed" doc:"checks with one, and what they say"`
	Controller      int64    `json:"controller" doc:"node id of the controller, 0 when none is known or not all agree"`
	Brokers         *int64   `json:"brokers" doc:"brokers that the cluster lists; none when not known, as for all figures here"`
	BrokersAlive    *int64   `json:"brokers_alive" doc:"those that are alive"`
	Voters          *int64   `json:"voters" doc:"voters"`
	VotersAlive     *int64   `json:"voters_alive" doc:"those that are alive"`
	Offline         *int64   `json:"offline" doc:"partitions without a leader"`
	UnderReplicated *int64   `json:"under_replicated" doc:"partitions with a replica that is not in sync"`
	LeadersCV       *float64 `json:"leaders_cv" doc:"coefficient of variation of leaders per active broker"`
	DiskFree        *float64 `json:"disk_free_percent" doc:"free part of the fullest broker's disk"`
	ClockApartMS    *int64   `json:"clocks_apart_ms" doc:"difference of the brokers' clocks, to about a second"`
	Versions        []string `json:"versions" doc:"the different versions"`
	VersionCount    int64    `json:"version_count" doc:"how many"`
}

func init() {
	define(meta{
		name: "cluster.health", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.ReadOnly, doc: "Say how the cluster is: every broker is asked, and each finding has a code, an object and a remedy. What could not be read is unknown.",
		command: "ister admin cluster health", note: "{status}, {first}",
	}, clusterHealth, nil)
}

func clusterHealth(ctx context.Context, env *Env, _ none) (healthOutputs, error) {
	out := healthOutputs{Status: string(health.NotKnown), First: "none", Remedy: "none", Codes: []string{}, Named: []string{}, Failed: []string{}, Versions: []string{}}
	var endpoints []string
	for _, b := range env.Cluster.Brokers() {
		if b.Running && b.Admin != "" {
			endpoints = append(endpoints, b.Admin)
		}
	}
	if len(endpoints) == 0 {
		return out, errors.New("no broker runs")
	}
	facts, err := health.Gather(ctx, endpoints, "scenario:"+env.RunID)
	if err != nil {
		return out, fmt.Errorf("read the cluster's health: %w", err)
	}
	out.fill(health.Judge(facts))
	return out, nil
}

func (out *healthOutputs) fill(r health.Report) {
	out.Status, out.Controller, out.LeadersCV, out.DiskFree, out.ClockApartMS = string(r.Status), int64(r.Controller), r.LeadersCV, r.DiskFree, r.ClockApartMS
	out.Versions, out.VersionCount = append(out.Versions, r.Versions...), int64(len(r.Versions))
	for to, from := range map[**int64]*int{
		&out.Brokers: r.Brokers, &out.BrokersAlive: r.BrokersAlive, &out.Voters: r.Voters, &out.VotersAlive: r.VotersAlive, &out.Offline: r.Offline, &out.UnderReplicated: r.UnderReplicated,
	} {
		if from != nil {
			value := int64(*from)
			*to = &value
		}
	}
	for _, c := range r.Checks {
		out.Checks++
		if c.Status == health.OK {
			out.Passed++
		} else {
			out.Failed = append(out.Failed, c.Name+": "+c.Says)
		}
	}
	for _, f := range r.Findings {
		out.Codes, out.Named = append(out.Codes, f.Code), append(out.Named, f.Code+" "+f.Object)
		switch f.Severity {
		case health.Error:
			out.Errors++
		case health.Warning:
			out.Warnings++
		case health.Unknown:
			out.Unknowns++
		default:
			continue
		}
		if out.First == "none" {
			out.First, out.Remedy = f.Code+" "+f.Object+": "+f.Message, f.Remedy
		}
	}
}
