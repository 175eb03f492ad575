//go:build !linux

package netns

import (
	"context"
	"errors"
	"net"

	"github.com/ister-mq/ister/setups"
)

var errNotHere = errors.New("network namespaces need Linux")

type (
	end     int
	network struct{ cuts cuts }
)

const hub end = 254

func endOf(string) (end, error) { return 0, errNotHere }
func (end) inner() string       { return "" }
func ownerOf(net.Addr) string   { return "" }

func newNetwork(run) *network                                   { return &network{} }
func (*network) add(end) (string, error)                        { return "", errNotHere }
func (*network) within(end, func() error) error                 { return errNotHere }
func (*network) apply() error                                   { return errNotHere }
func (*network) limit(string, int64) error                      { return errNotHere }
func (*network) close() []string                                { return nil }
func (*network) dial(context.Context, string) (net.Conn, error) { return nil, errNotHere }

func removeRun(run) []string { return nil }

func checkMachine() []setups.Finding {
	return []setups.Finding{{Code: "NETWORK_NAMESPACES", Fatal: true, Message: errNotHere.Error(), Remedy: "use the setup process or container"}}
}
