package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// findCoordinator refuses: there are neither consumer groups nor transactions.
// The API is served so that clients learn it by an error with words: a retriable
// one for groups, which are to come, and a final one for transactions.
func findCoordinator(_ context.Context, _ *listener, req *kmsg.FindCoordinatorRequest, resp *kmsg.FindCoordinatorResponse) {
	code := kerr.CoordinatorNotAvailable.Code
	message := "consumer groups are not served by this version; assign partitions in the client"
	if req.CoordinatorType == coordinatorTransaction {
		code, message = kerr.TransactionalIDAuthorizationFailed.Code, noTransactions
	}
	if req.CoordinatorType < coordinatorGroup || req.CoordinatorType > coordinatorTransaction {
		code, message = kerr.InvalidRequest.Code, "the coordinator type is not known"
	}
	if req.Version < findCoordinatorBatch {
		resp.ErrorCode, resp.ErrorMessage = code, &message
		resp.NodeID, resp.Port = -1, -1
		return
	}
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Port = key, -1, -1
		c.ErrorCode, c.ErrorMessage = code, &message
		resp.Coordinators = append(resp.Coordinators, c)
	}
}

const (
	coordinatorGroup       = 0
	coordinatorTransaction = 1
	findCoordinatorBatch   = 4 // KIP-699
)
