package report

// Sample is what a look at the cluster and its clients showed. What could not be
// read is nil, never 0, and Unread says why.
type Sample struct {
	Brokers         []BrokerSample `json:"brokers"` // the active ones, by name
	Moves           *int64         `json:"moves"`   // under way
	Voters          *int64         `json:"voters"`
	UnderReplicated *int64         `json:"under_replicated"` // partitions
	ProduceRate     *float64       `json:"produce_rate"`     // records acknowledged per second, since the sample before
	ConsumeRate     *float64       `json:"consume_rate"`     // records delivered per second
	AckMS           *float64       `json:"ack_ms"`           // mean time to acknowledgement, since the sample before
	GapMS           *float64       `json:"gap_ms"`           // how long the send that waits longest has waited by now
	// Unread is why a member is null, by its name.
	Unread map[string]string `json:"unread,omitempty"`
}

// BrokerSample is one broker's share.
type BrokerSample struct {
	Name     string `json:"name"`
	NodeID   int64  `json:"node_id"`
	Leaders  int64  `json:"leaders"`
	Replicas int64  `json:"replicas"`
	Fenced   bool   `json:"fenced,omitempty"` // not alive, as the controller has it
}
