package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// call is one request from its arrival until its answer is written. Calls are
// pooled. What a call holds belongs to the reader until it is pushed on the
// queue, to the backend until it completes, then to the writer.
type call struct {
	connection     *connection
	buf            *buffer // the request; names and batches alias it
	header         header
	flexibleHeader bool // of the answer
	reserved       reserved
	holdsFetchSlot bool
	answered       bool // guarded by the queue

	// One of the three carries the answer.
	response kmsg.Response
	produce  *produceCall
	fetch    *fetchCall
}

var calls = sync.Pool{New: func() any { return new(call) }}

// recycle gives the call and its buffers back.
func (k *call) recycle() {
	if k.produce != nil {
		k.produce.recycle()
	}
	if k.fetch != nil {
		k.fetch.recycle()
	}
	if k.buf != nil {
		k.buf.put()
	}
	*k = call{}
	calls.Put(k)
}

// silent reports a call that gets no answer: a produce that asked for none.
func (k *call) silent() bool { return k.produce != nil && k.produce.req.Acks == AcksNone }

// failed reports a silent call that went wrong.
func (k *call) failed() bool { return k.produce != nil && k.produce.failed() }

// encode adds the answer's body.
func (k *call) encode(o *output) {
	switch {
	case k.produce != nil:
		o.encoded = k.produce.appendResponse(o.encoded, k.header.version, k.connection.backend)
	case k.fetch != nil:
		k.fetch.encode(o, k.header.version, k.connection.backend)
	default:
		o.encoded = k.response.AppendTo(o.encoded)
	}
}

// handler answers one request of a small API on the connection's reading
// goroutine.
type handler func(ctx context.Context, l *listener, req kmsg.Request) kmsg.Response

// typed makes a handler of a function that fills a response of the request's
// version.
func typed[Req kmsg.Request, Resp kmsg.Response](fill func(context.Context, *listener, Req, Resp)) handler {
	return func(ctx context.Context, l *listener, req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind()
		fill(ctx, l, req.(Req), resp.(Resp))
		return resp
	}
}

// handlers has every API of versions except Produce and Fetch, which do not wait
// for their answer.
var handlers = map[kmsg.Key]handler{
	kmsg.ListOffsets:          typed(listOffsets),
	kmsg.Metadata:             typed(describeMetadata),
	kmsg.FindCoordinator:      typed(findCoordinator),
	kmsg.ApiVersions:          typed(apiVersions),
	kmsg.CreateTopics:         typed(createTopics),
	kmsg.DeleteTopics:         typed(deleteTopics),
	kmsg.InitProducerID:       typed(initProducerID),
	kmsg.OffsetForLeaderEpoch: typed(offsetForLeaderEpoch),
	kmsg.DescribeConfigs:      typed(describeConfigs),
	kmsg.DescribeCluster:      typed(describeCluster),
}

// dispatch starts the request in buf, which it takes over. An error ends the
// connection.
func (c *connection) dispatch(ctx context.Context, buf *buffer) error {
	h := parseHeaderStart(buf.b)
	api := versionsOf(h.key)
	if api != nil && api.key == kmsg.ApiVersions && !api.has(h.version) {
		return c.refuseApiVersions(ctx, buf, h)
	}
	if api == nil || !api.has(h.version) {
		buf.put()
		return c.refuse(h, "API or version is not supported")
	}
	if !api.takes(len(buf.b)) {
		buf.put()
		return c.refuse(h, "request is too large for its API")
	}
	flexible := api.isFlexible(h.version)
	body, err := skipHeaderRest(buf.b[headerMin:], flexible)
	if err != nil {
		buf.put()
		return c.refuse(h, "header is malformed")
	}
	k, err := c.newCall(ctx, buf, h)
	if err != nil {
		return err
	}
	// The answer's header has no tags for ApiVersions, so that a client that does
	// not know the node's versions can read it.
	k.flexibleHeader = flexible && api.key != kmsg.ApiVersions
	switch api.key {
	case kmsg.Produce:
		err = c.startProduce(ctx, k, body)
	case kmsg.Fetch:
		err = c.startFetch(ctx, k, body)
	default:
		err = c.answer(ctx, k, api, body)
	}
	return err
}

// newCall wraps a request once there is room for it. It takes buf over.
func (c *connection) newCall(ctx context.Context, buf *buffer, h header) (*call, error) {
	r, err := c.reserve(ctx, len(buf.b))
	if err != nil {
		buf.put()
		return nil, err
	}
	k := calls.Get().(*call)
	*k = call{connection: c, buf: buf, header: h, reserved: r}
	return k, nil
}

// answer runs a small API's handler and queues its answer.
func (c *connection) answer(ctx context.Context, k *call, api *versionRange, body []byte) error {
	req := kmsg.RequestForKey(k.header.key)
	req.SetVersion(k.header.version)
	if err := req.ReadFrom(body); err != nil {
		defer c.finish(k)
		return c.refuse(k.header, "body is malformed")
	}
	k.response = handlers[api.key](ctx, c.listener, req)
	return c.pushAnswered(ctx, k)
}

// pushAnswered queues a call that has its answer.
func (c *connection) pushAnswered(ctx context.Context, k *call) error {
	if err := c.push(ctx, k); err != nil {
		return err
	}
	c.queue.complete(k)
	return nil
}

// push queues a call, or gives it up when ctx ends first.
func (c *connection) push(ctx context.Context, k *call) error {
	err := c.queue.push(ctx, k)
	if err != nil {
		c.finish(k)
	}
	return err
}

// refuse reports a request that the protocol has no answer for; the connection
// is then closed, as Kafka does.
func (c *connection) refuse(h header, why string) error {
	c.cfg.Logger.Warn("kafka request refused", "peer", c.nc.RemoteAddr().String(),
		"reason", why, "api", h.key, "version", h.version)
	return fmt.Errorf("request with API key %d version %d: %s", h.key, h.version, why)
}
