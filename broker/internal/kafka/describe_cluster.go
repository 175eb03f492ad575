package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Endpoint types of DescribeCluster (KIP-919).
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

func describeCluster(_ context.Context, l *listener, req *kmsg.DescribeClusterRequest, resp *kmsg.DescribeClusterResponse) {
	v := l.backend.View()
	resp.ClusterID, resp.ControllerID = string(v.Image.Cluster), -1
	if req.Version >= 1 {
		resp.EndpointType = req.EndpointType
		message := "this listener serves brokers; endpoint type 1 is expected"
		switch req.EndpointType {
		case endpointBrokers:
		case endpointControllers:
			resp.ErrorCode, resp.ErrorMessage = kerr.MismatchedEndpointType.Code, &message
			return
		default:
			resp.ErrorCode, resp.ErrorMessage = kerr.UnsupportedEndpointType.Code, &message
			return
		}
	}
	resp.ControllerID = controllerID(v)
	for _, n := range v.Image.SortedNodes() {
		host, port, ok := hostPort(n)
		if !ok || n.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack, b.IsFenced = int32(n.ID), host, port, rackOf(n), n.Fenced
		resp.Brokers = append(resp.Brokers, b)
	}
}
