package attach

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/admin/client"
	"github.com/ister-mq/ister/setups"
)

// askTimeout bounds one question to one broker.
const askTimeout = 5 * time.Second

// Setup implements setups.Setup.
type Setup struct {
	// Admin are the admin addresses of the brokers, host:port or http://host:port.
	// One of a broker that waits to be added (--join) is what Add gives.
	Admin []string
	// Bootstrap are addresses for Kafka clients. They are needed only where Admin
	// is empty: admin addresses tell them.
	Bootstrap []string
	// Command is the owner's executable that adds, starts and ends brokers; see
	// command.go for how it is called. "": none.
	Command string

	waiting int // brokers of Admin that wait to be added, as Looked has seen
}

var (
	_ setups.Limited    = Setup{}
	_ setups.Configured = Setup{}
	_ setups.Cleaner    = Setup{}
)

// Name implements setups.Setup.
func (Setup) Name() string { return "attach" }

// Flags implements setups.Configured.
func (s Setup) Flags() []string {
	var words []string
	for flag, value := range map[string]string{"--admin": strings.Join(s.Admin, ","), "--bootstrap": strings.Join(s.Bootstrap, ","), "--broker-command": s.Command} {
		if value != "" {
			words = append(words, flag+"="+value)
		}
	}
	sort.Strings(words)
	return words
}

// Looked is the setup after a look at which brokers wait to be added, on which
// Cannot depends. One that does not answer does not wait.
func (s Setup) Looked(ctx context.Context) Setup {
	s.waiting = 0
	for _, address := range s.Admin {
		if info, err := ask(ctx, address); err == nil && info.State == stateFresh {
			s.waiting++
		}
	}
	return s
}

// stateFresh is what a broker says that waits to be added, stateForming one whose
// cluster is not there yet, stateRemoved one that can never come back.
const (
	stateFresh   = "fresh"
	stateForming = "forming"
	stateRemoved = "removed"
)

// Cannot implements setups.Limited.
func (s Setup) Cannot(ability setups.Ability) *setups.Refused {
	refused := &setups.Refused{Setup: s.Name(), What: ability.What()}
	switch ability {
	case setups.AbilityAdmin:
		if len(s.Admin) > 0 {
			return nil
		}
		refused.Why, refused.Flag = "no admin address is given", "--admin"
		refused.Remedy = "give --admin HOST:PORT,... of every broker, where the cluster is one of Ister"
	case setups.AbilityAdd:
		if s.Command != "" || s.waiting > 0 {
			return nil
		}
		refused.Why, refused.Flag = "no --broker-command is given, and no broker of --admin waits to be added", "--broker-command"
		refused.Remedy = "give --broker-command CMD, an executable that starts one (the skill attach has an example)"
	case setups.AbilityStart, setups.AbilityStop, setups.AbilityKill, setups.AbilityPause:
		if s.Command != "" {
			return nil
		}
		refused.Why, refused.Flag = "it did not start the brokers, and no --broker-command is given", "--broker-command"
		refused.Remedy = "give --broker-command CMD, an executable that does it (the skill attach has an example)"
	default:
		refused.Why, refused.Remedy = "the machines of the cluster are not its own", "use a setup that starts its own brokers"
	}
	return refused
}

// Check implements setups.Setup.
func (s Setup) Check(ctx context.Context) []setups.Finding {
	if len(s.Admin)+len(s.Bootstrap) == 0 {
		return []setups.Finding{{Code: "ADDRESSES", Fatal: true, Message: "no address of a cluster is given",
			Remedy: "give --admin HOST:PORT,... of every broker, or --bootstrap HOST:PORT,... of a cluster without Ister's admin API"}}
	}
	var findings []setups.Finding
	for _, address := range s.Admin {
		f := setups.Finding{Code: "ADMIN_REACHABLE", OK: true}
		if info, err := ask(ctx, address); err != nil {
			f.OK, f.Fatal, f.Message, f.Remedy = false, true, err.Error(), "start that broker, or correct --admin"
		} else {
			f.Message = fmt.Sprintf("%s is a broker in state %s, version %s", address, info.State, info.Version)
		}
		findings = append(findings, f)
	}
	if len(s.Bootstrap) > 0 {
		f := setups.Finding{Code: "BOOTSTRAP_REACHABLE", OK: true}
		if brokers, err := kafkaBrokers(ctx, s.Bootstrap); err != nil {
			f.OK, f.Fatal, f.Message, f.Remedy = false, true, err.Error(), "start the cluster, or correct --bootstrap"
		} else {
			f.Message = fmt.Sprintf("%d brokers answer the Kafka protocol", len(brokers))
		}
		findings = append(findings, f)
	}
	if s.Command != "" {
		f := setups.Finding{Code: "BROKER_COMMAND", OK: true, Message: s.Command + " is an executable file"}
		if err := CheckCommand(s.Command); err != nil {
			f.OK, f.Fatal, f.Message, f.Remedy = false, true, err.Error(), "correct --broker-command"
		}
		findings = append(findings, f)
	}
	return findings
}

// New implements setups.Setup.
func (s Setup) New(ctx context.Context, options setups.Options) (setups.Cluster, error) {
	for _, f := range s.Check(ctx) {
		if f.Fatal {
			return nil, fmt.Errorf("%s; %s", f.Message, f.Remedy)
		}
	}
	if options.Dir != "" { // the command is told it, and works elsewhere
		dir, err := filepath.Abs(options.Dir)
		if err != nil {
			return nil, fmt.Errorf("find the run's directory: %w", err)
		}
		options.Dir = dir
	}
	c := &cluster{setup: s, options: options, inner: map[string]string{}, journal: &journal{Admin: s.Admin, Bootstrap: s.Bootstrap, Command: s.Command}}
	if options.Dir != "" {
		c.journal.path = journalPath(options.Dir)
	}
	return c, c.journal.save()
}

// ask asks the broker behind an admin address who it is.
func ask(ctx context.Context, address string) (client.NodeInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := client.New(client.Options{Endpoints: []string{address}, Actor: "attach"})
	if err != nil {
		return client.NodeInfo{}, err
	}
	defer c.Close()
	return c.NodeInfo(ctx)
}

// kafkaBrokers asks a cluster of any kind for its brokers, in order of their ids.
func kafkaBrokers(ctx context.Context, bootstrap []string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		return nil, fmt.Errorf("bootstrap addresses: %w", err)
	}
	defer c.Close()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none
	answer, err := request.RequestWith(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("ask %s for the brokers of the cluster: %w", strings.Join(bootstrap, ","), err)
	}
	sort.Slice(answer.Brokers, func(i, j int) bool { return answer.Brokers[i].NodeID < answer.Brokers[j].NodeID })
	var out []string
	for _, b := range answer.Brokers {
		out = append(out, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	return out, nil
}
