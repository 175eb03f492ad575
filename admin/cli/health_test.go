package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/adminv1/adminv1connect"
	"github.com/ister-mq/ister/admin/health"
)

// patient is a cluster of two brokers of which only node 1 answers; node 2 is
// fenced when fenced is set, and gone otherwise.
type patient struct {
	fenced bool
	self   string
}

type patientCluster struct {
	stubCluster
	p *patient
}

type patientBrokers struct {
	stubBrokers
	p *patient
}

type patientTopics struct{ stubTopics }

type patientOperations struct{ stubOperations }

func (c patientCluster) GetStatus(context.Context, *adminv1.GetStatusRequest) (*adminv1.GetStatusResponse, error) {
	return &adminv1.GetStatusResponse{SelfNodeId: 1, Ready: true, SelfVersion: "0.1.0", ClusterId: "c-1", ControllerId: 1, Voters: []int32{1}}, nil
}

func (c patientCluster) ListMembers(context.Context, *adminv1.ListMembersRequest) (*adminv1.ListMembersResponse, error) {
	return &adminv1.ListMembersResponse{Members: []*adminv1.Member{{NodeId: 1, Role: adminv1.Member_VOTER, Controller: true}}}, nil
}

func (b patientBrokers) ListBrokers(context.Context, *adminv1.ListBrokersRequest) (*adminv1.ListBrokersResponse, error) {
	list := []*adminv1.Broker{{BrokerId: 1, State: adminv1.Node_ACTIVE, Endpoints: &adminv1.Endpoints{Admin: b.p.self}}}
	if b.p.fenced {
		list = append(list, &adminv1.Broker{BrokerId: 2, State: adminv1.Node_ACTIVE, Fenced: true, Endpoints: &adminv1.Endpoints{Admin: "127.0.0.1:1"}})
	}
	return &adminv1.ListBrokersResponse{Brokers: list}, nil
}

func (b patientBrokers) GetBalance(context.Context, *adminv1.GetBalanceRequest) (*adminv1.GetBalanceResponse, error) {
	return &adminv1.GetBalanceResponse{Balance: &adminv1.Balance{CoefficientOfVariation: wrapperspb.Double(0)}}, nil
}

func (patientTopics) ListTopics(context.Context, *adminv1.ListTopicsRequest) (*adminv1.ListTopicsResponse, error) {
	return &adminv1.ListTopicsResponse{}, nil
}

func (patientOperations) ListOperations(context.Context, *adminv1.ListOperationsRequest) (*adminv1.ListOperationsResponse, error) {
	return &adminv1.ListOperationsResponse{}, nil
}

func (p *patient) serve(t *testing.T, metrics string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(adminv1connect.NewClusterServiceHandler(patientCluster{p: p}))
	mux.Handle(adminv1connect.NewBrokersServiceHandler(patientBrokers{p: p}))
	mux.Handle(adminv1connect.NewTopicsServiceHandler(patientTopics{}))
	mux.Handle(adminv1connect.NewOperationsServiceHandler(patientOperations{}))
	if metrics != "" {
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(metrics)) })
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.self = strings.TrimPrefix(server.URL, "http://")
	return p.self
}

const fineMetrics = "# HELP x y\nister_disk_capacity_bytes 1000\nister_disk_free_bytes 500\nister_replica_count{role=\"offline\"} 0\n"

func TestClusterHealthExits(t *testing.T) {
	for _, c := range []struct {
		name    string
		patient patient
		metrics string
		args    string
		exit    int
		out     string
		errOut  string
	}{
		{"healthy", patient{}, fineMetrics, "", 0, "Cluster c-1 is healthy.", ""},
		{"a broker is fenced", patient{fenced: true}, fineMetrics, "", 4, "ERROR BROKER_FENCED: node 2", "[BROKER_FENCED]"},
		{"errors count whatever --fail-on says", patient{fenced: true}, fineMetrics, "--fail-on error", 4, "is unhealthy.", "start it again"},
		{"little room is a warning", patient{}, strings.Replace(fineMetrics, "500", "50", 1), "", 4, "WARNING DISK_LOW: node 1", "[DISK_LOW]"},
		{"which may be let pass", patient{}, strings.Replace(fineMetrics, "500", "50", 1), "--fail-on error", 0, "is degraded.", ""},
		{"without metrics nobody knows", patient{}, "", "", 6, "UNKNOWN METRICS_NOT_READ: node 1", "not everything could be read"},
		{"a wrong choice", patient{}, fineMetrics, "--fail-on sometimes", 2, "", "warning"},
	} {
		address := c.patient.serve(t, c.metrics)
		out, errOut, exit := execute(append([]string{"--endpoint", address, "cluster", "health"}, strings.Fields(c.args)...)...)
		if exit != c.exit || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.errOut) || c.errOut == "" && errOut != "" {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.name, exit, c.exit, out, errOut)
		}
		checkWidth(t, c.name, out)
	}
}

func TestClusterHealthAsJSON(t *testing.T) {
	p := patient{fenced: true}
	out, _, exit := execute("--endpoint", p.serve(t, fineMetrics), "cluster", "health", "-o", "json")
	var r health.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || exit != 4 {
		t.Fatalf("exit %d, %v in %s", exit, err, out)
	}
	if r.Status != health.Unhealthy || r.Findings[0].Code != "BROKER_FENCED" || r.Findings[0].Object != "node 2" || r.Findings[0].Remedy == "" || *r.Brokers != 2 || *r.BrokersAlive != 1 {
		t.Errorf("%+v", r)
	}
	yamlOut, _, _ := execute("--endpoint", p.serve(t, fineMetrics), "cluster", "health", "-o", "yaml")
	if !strings.Contains(yamlOut, "status: unhealthy\n") || !strings.Contains(yamlOut, "code: BROKER_FENCED\n") {
		t.Error(yamlOut)
	}
}

// TestClusterHealthWithoutAnAnswerInTime: questions of a cluster without a
// controller end with the time given; what the broker says of itself is judged all
// the same.
func TestClusterHealthWithoutAnAnswerInTime(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle(adminv1connect.NewClusterServiceHandler(orphan{}))
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // until then nobody sees the client go
		<-r.Context().Done()
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	out, errOut, exit := execute("--endpoint", server.URL, "--timeout", "3s", "cluster", "health")
	if exit != ExitPrecondition || !strings.Contains(errOut, "[NO_CONTROLLER]") {
		t.Errorf("exit %d: %s", exit, errOut)
	}
	for _, want := range []string{"Cluster c-1 is unhealthy.", "ERROR NO_CONTROLLER: node 1", "UNKNOWN NOT_READ: members", "UNKNOWN NOT_READ: topics"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// orphan is a broker that knows no controller.
type orphan struct{ stubCluster }

func (orphan) GetStatus(context.Context, *adminv1.GetStatusRequest) (*adminv1.GetStatusResponse, error) {
	return &adminv1.GetStatusResponse{SelfNodeId: 1, ClusterId: "c-1", NotReadyReasons: []string{"no controller"}}, nil
}

func (orphan) ListMembers(ctx context.Context, _ *adminv1.ListMembersRequest) (*adminv1.ListMembersResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTimeThatRanOutIsSaidInWords(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	_, errOut, exit := execute("--endpoint", server.URL, "--timeout", "1ms", "cluster", "status")
	if exit != ExitUnavailable || !strings.Contains(errOut, "the time ran out [TIMEOUT]") || strings.Contains(errOut, "context") {
		t.Errorf("exit %d: %s", exit, errOut)
	}
}
