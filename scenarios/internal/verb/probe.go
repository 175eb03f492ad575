package verb

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/scenarios/internal/spec"
	"github.com/ister-mq/ister/setups"
)

type probeOutputs struct {
	Count       int64    `json:"count" doc:"brokers that run"`
	Kafka       int64    `json:"kafka" doc:"those whose Kafka port answers"`
	Admin       int64    `json:"admin" doc:"those whose admin API answers"`
	Health      int64    `json:"health" doc:"those that say they are ready"`
	Metrics     int64    `json:"metrics" doc:"those whose metrics say they are ready"`
	Agree       bool     `json:"agree" doc:"all name one cluster, one controller, the same voters and learners"`
	Difference  string   `json:"difference" doc:"what two of them say differently, or what does not answer; none without"`
	ClusterID   string   `json:"cluster_id" doc:"id of the cluster"`
	Controller  int64    `json:"controller" doc:"node id of the controller, 0 when none is known"`
	Voters      []int64  `json:"voters" doc:"node ids of the voters"`
	VoterCount  int64    `json:"voter_count" doc:"how many"`
	NodeIDs     []int64  `json:"node_ids" doc:"node ids of the brokers, in the order of their names"`
	DistinctIDs int64    `json:"distinct_ids" doc:"how many different ones"`
	Versions    []string `json:"versions" doc:"the different versions"`
	Identities  string   `json:"identities" doc:"name, node id and incarnation of each: a broker that lost its data has another"`
}

type adminReadOutputs struct {
	Asked    int64    `json:"asked" doc:"questions put to all brokers"`
	Answered int64    `json:"answered" doc:"questions that were answered"`
	Failed   []string `json:"failed" doc:"broker, question and error of those that were not"`
	Kinds    int64    `json:"kinds" doc:"different questions"`
	SlowMS   float64  `json:"slowest_ms" doc:"the slowest answer"`
	Slowest  string   `json:"slowest" doc:"its broker and question"`
}

func init() {
	define(meta{
		name: "broker.probe", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.ReadOnly, doc: "Ask every broker that runs on each of its ports, and compare what they say of the cluster.",
		command: "curl http://<admin>/readyz; curl http://<metrics>/metrics; kcat -L -b <kafka>; ister admin --endpoint <admin> cluster status", note: "brokers {count}, agree {agree}",
	}, brokerProbe, nil)
	define(meta{
		name: "admin.read", needs: []setups.Ability{setups.AbilityAdmin}, risk: spec.ReadOnly, doc: "Put every read-only question of the admin API to every broker.",
		command: "<each read-only command of `ister admin`, with --endpoint of each broker>", note: "answered {answered} of {asked}",
	}, adminRead, nil)
}

func brokerProbe(ctx context.Context, env *Env, _ none) (probeOutputs, error) {
	out := probeOutputs{Difference: "none", Voters: []int64{}, NodeIDs: []int64{}, Versions: []string{}}
	versions, ids := map[string]bool{}, map[int64]bool{}
	var identities []string
	firstView, firstName := "", ""
	for _, b := range env.Cluster.Brokers() {
		if !b.Running {
			continue
		}
		out.Count++
		out.ports(ctx, b)
		s, err := askStatus(ctx, env, b.Name)
		if err != nil {
			out.differ(fmt.Sprintf("%s: admin: %v", b.Name, err))
			continue
		}
		out.Admin++
		if s.GetReady() {
			out.Health++
		} else {
			out.differ(fmt.Sprintf("%s is not ready: %s", b.Name, strings.Join(s.GetNotReadyReasons(), "; ")))
		}
		view := fmt.Sprintf("cluster %s, controller %d, voters %v, learners %v", s.GetClusterId(), s.GetControllerId(), int64s(s.GetVoters()), int64s(s.GetLearners()))
		if firstView == "" {
			firstView, firstName = view, b.Name
			out.ClusterID, out.Controller, out.Voters = s.GetClusterId(), int64(s.GetControllerId()), int64s(s.GetVoters())
		} else if view != firstView {
			out.differ(fmt.Sprintf("%s says %s; %s says %s", firstName, firstView, b.Name, view))
		}
		out.NodeIDs = append(out.NodeIDs, int64(s.GetSelfNodeId()))
		ids[int64(s.GetSelfNodeId())] = true
		versions[s.GetSelfVersion()] = true
		identities = append(identities, fmt.Sprintf("%s: node %d, incarnation %s", b.Name, s.GetSelfNodeId(), s.GetSelfIncarnation()))
	}
	for v := range versions {
		out.Versions = append(out.Versions, v)
	}
	sort.Strings(out.Versions)
	out.VoterCount, out.DistinctIDs, out.Identities = int64(len(out.Voters)), int64(len(ids)), strings.Join(identities, "; ")
	out.Agree = out.Difference == "none" && out.Count > 0 && out.Admin == out.Count
	return out, nil
}

// differ notes the first difference.
func (out *probeOutputs) differ(what string) {
	if out.Difference == "none" {
		out.Difference = what
	}
}

func (out *probeOutputs) ports(ctx context.Context, b setups.Broker) {
	if err := askKafka(ctx, b.Kafka); err != nil {
		out.differ(fmt.Sprintf("%s: Kafka at %s: %v", b.Name, b.Kafka, err))
	} else {
		out.Kafka++
	}
	address := b.Metrics
	if address == "" {
		address = b.Admin
	}
	page, err := getPage(ctx, "http://"+address+"/metrics")
	switch {
	case err != nil:
		out.differ(fmt.Sprintf("%s: metrics: %v", b.Name, err))
	case !strings.Contains(page, "\nister_node_ready 1\n"):
		out.differ(fmt.Sprintf("%s: metrics do not have ister_node_ready 1", b.Name))
	default:
		out.Metrics++
	}
}

// probeTimeout bounds one question to one port.
const probeTimeout = 5 * time.Second

func askKafka(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID("ister-scenario"))
	if err != nil {
		return err
	}
	defer client.Close()
	answer, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	if err == nil && len(answer.ApiKeys) == 0 {
		err = fmt.Errorf("no version of any API is listed")
	}
	return err
}

func getPage(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d, expected 200", url, response.StatusCode)
	}
	return string(body), err
}

func askStatus(ctx context.Context, env *Env, name string) (*adminv1.GetStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	admin, err := env.AdminOf(name)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
}

// question is one read of the admin API.
type question struct {
	name string
	ask  func(context.Context, *client.Client) error
}

func readQuestions(brokers []int64, topics []string) []question {
	all := []question{
		{"cluster status", func(ctx context.Context, c *client.Client) error {
			_, err := c.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
			return err
		}},
		{"cluster members", func(ctx context.Context, c *client.Client) error {
			_, err := c.Cluster.ListMembers(ctx, &adminv1.ListMembersRequest{})
			return err
		}},
		{"cluster operations list", func(ctx context.Context, c *client.Client) error {
			_, err := c.Operations.ListOperations(ctx, &adminv1.ListOperationsRequest{})
			return err
		}},
		{"cluster moves", func(ctx context.Context, c *client.Client) error {
			_, err := c.Operations.ListMoves(ctx, &adminv1.ListMovesRequest{All: true})
			return err
		}},
		{"brokers list", func(ctx context.Context, c *client.Client) error {
			_, err := c.Brokers.ListBrokers(ctx, &adminv1.ListBrokersRequest{})
			return err
		}},
		{"brokers leader-broker", func(ctx context.Context, c *client.Client) error {
			_, err := c.Brokers.GetLeaderBroker(ctx, &adminv1.GetLeaderBrokerRequest{})
			return err
		}},
		{"brokers balance", func(ctx context.Context, c *client.Client) error {
			_, err := c.Brokers.GetBalance(ctx, &adminv1.GetBalanceRequest{})
			return err
		}},
		{"topics list", func(ctx context.Context, c *client.Client) error {
			_, err := c.Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{})
			return err
		}},
		{"namespaces list", func(ctx context.Context, c *client.Client) error {
			_, err := c.Namespaces.ListNamespaces(ctx, &adminv1.ListNamespacesRequest{})
			return err
		}},
	}
	for _, id := range brokers {
		all = append(all, question{fmt.Sprintf("drain certificate of node %d", id), func(ctx context.Context, c *client.Client) error {
			_, err := c.Brokers.GetDrainCertificate(ctx, &adminv1.GetDrainCertificateRequest{BrokerId: int32(id)})
			return err
		}})
	}
	for _, name := range topics[:min(len(topics), describedMax)] {
		all = append(all, question{"topics describe " + name, func(ctx context.Context, c *client.Client) error {
			_, err := c.Topics.DescribeTopic(ctx, &adminv1.DescribeTopicRequest{Name: name})
			return err
		}})
	}
	return all
}

// describedMax bounds the topics that admin.read asks every broker about.
const describedMax = 20

func adminRead(ctx context.Context, env *Env, _ none) (adminReadOutputs, error) {
	out := adminReadOutputs{Failed: []string{}, Slowest: "none"}
	now, err := status(ctx, env, none{})
	if err != nil {
		return out, err
	}
	admin, err := env.Admin()
	if err != nil {
		return out, err
	}
	listed, err := admin.Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{})
	if err != nil {
		return out, fmt.Errorf("list topics: %w", err)
	}
	var topics []string
	for _, t := range listed.GetTopics() {
		topics = append(topics, t.GetName())
	}
	questions := readQuestions(now.Brokers, topics)
	out.Kinds = int64(len(questions))
	for _, b := range env.Cluster.Brokers() {
		if !b.Running {
			continue
		}
		one, err := env.AdminOf(b.Name)
		if err != nil {
			return out, err
		}
		for _, q := range questions {
			out.put(ctx, one, b.Name, q)
		}
		one.Close()
	}
	return out, ctx.Err()
}

func (out *adminReadOutputs) put(ctx context.Context, c *client.Client, broker string, q question) {
	start := time.Now()
	out.Asked++
	if err := q.ask(ctx, c); err != nil {
		out.Failed = append(out.Failed, fmt.Sprintf("%s: %s: %v", broker, q.name, err))
		return
	}
	out.Answered++
	if took := since(start); took > out.SlowMS {
		out.SlowMS, out.Slowest = took, broker+": "+q.name
	}
}
