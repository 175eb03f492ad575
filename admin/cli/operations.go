package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ister-mq/ister/admin/adminv1"
)

func (a *app) operationsCommand() *cobra.Command {
	return newGroup("operations", "List, show and cancel operations",
		"List, show and cancel operations: rebalances, unloads, moves.",
		a.operationsListCommand(), a.operationsShowCommand(), a.operationsCancelCommand())
}

func (a *app) operationsListCommand() *cobra.Command {
	var request adminv1.ListOperationsRequest
	c := &cobra.Command{
		Use: "list", Short: "List operations, newest first", Args: noArguments,
		RunE: a.run(func(c *call) error {
			r, err := c.Operations.ListOperations(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) { printOperations(w, r.GetOperations()) })
		}),
	}
	c.Flags().BoolVar(&request.Live, "live", false, "only those that have not ended")
	return c
}

func (a *app) operationsShowCommand() *cobra.Command {
	var waits bool
	c := &cobra.Command{
		Use: "show ID", Short: "Show one operation with its moves", Args: oneArgument("ID", "op-17"),
		ValidArgsFunction: a.complete(liveOperations),
		RunE: a.run(func(c *call) error {
			id, err := operationID(c.command, c.args[0])
			if err != nil {
				return err
			}
			r, err := c.Operations.GetOperation(c.context, &adminv1.GetOperationRequest{OperationId: id})
			if err != nil {
				return err
			}
			op, waitErr := r.GetOperation(), error(nil)
			if waits {
				op, waitErr = c.wait(op)
			}
			if err := c.print(op, func(w io.Writer) { printOperation(w, op) }); err != nil {
				return err
			}
			return waitErr
		}),
	}
	waitFlag(c, &waits)
	return c
}

func (a *app) operationsCancelCommand() *cobra.Command {
	var request adminv1.CancelOperationRequest
	c := &cobra.Command{
		Use: "cancel ID", Short: "Stop an operation",
		Long: `Stop an operation: planned moves are dropped, copying ones are reverted, and those
that have switched finish.`,
		Args: oneArgument("ID", "op-17"), ValidArgsFunction: a.complete(liveOperations),
		RunE: a.run(func(c *call) error {
			id, err := operationID(c.command, c.args[0])
			if err != nil {
				return err
			}
			request.OperationId = id
			r, err := c.Operations.CancelOperation(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				name, state := operationName(id), lower(r.GetOperation().GetState())
				switch {
				case r.GetAlready():
					fmt.Fprintf(w, "%s is %s already; nothing was changed.\n", name, state)
				case r.GetDryRun():
					fmt.Fprintf(w, "Dry run: %s is %s and would be cancelled; nothing was changed.\n", name, state)
				default:
					fmt.Fprintf(w, "%s is now %s.\n", name, state)
				}
			})
		}),
	}
	dryRunFlag(c, &request.DryRun)
	return c
}

func (a *app) movesCommand() *cobra.Command {
	var request adminv1.ListMovesRequest
	c := &cobra.Command{
		Use: "moves", Short: "List the moves of operations under way", Args: noArguments,
		RunE: a.run(func(c *call) error {
			r, err := c.Operations.ListMoves(c.context, &request)
			if err != nil {
				return err
			}
			return c.print(r, func(w io.Writer) {
				if len(r.GetMoves()) == 0 {
					fmt.Fprintln(w, "There are no moves under way.")
					return
				}
				printMoves(w, r.GetMoves(), true)
			})
		}),
	}
	c.Flags().BoolVar(&request.All, "all", false, "also those that are done, of operations that have not ended")
	return c
}
