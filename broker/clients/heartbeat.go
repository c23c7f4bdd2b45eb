package clients

import (
	"encoding/json"
	"fmt"

	"github.com/tandemq/tandemmq/filter"
	"github.com/tandemq/tandemmq/remoting"
)

// Heartbeat is the body of a client's heartbeat.
type Heartbeat struct {
	ClientID    string         `json:"clientID"`
	Consumers   []ConsumerData `json:"consumerDataSet"`
	Producers   []ProducerData `json:"producerDataSet"`
	Fingerprint remoting.Int   `json:"heartbeatFingerprint"`
	WithoutSub  bool           `json:"withoutSub"` // subscriptions are those of an earlier heartbeat
}

// ProducerData names a group that the client produces for.
type ProducerData struct {
	Group string `json:"groupName"`
}

// ConsumerData says how the client consumes for a group.
type ConsumerData struct {
	Group         string         `json:"groupName"`
	Type          ConsumeType    `json:"consumeType"`
	Model         MessageModel   `json:"messageModel"`
	FromWhere     FromWhere      `json:"consumeFromWhere"`
	Subscriptions []Subscription `json:"subscriptionDataSet"`
}

// Subscription is what a group wants of a topic.
type Subscription struct {
	Topic          string       `json:"topic"`
	Expression     string       `json:"subString"`
	ExpressionType string       `json:"expressionType"`
	Version        remoting.Int `json:"subVersion"`
	ClassFilter    bool         `json:"classFilterMode"`

	filter *filter.Filter
	err    error
}

// Filter returns the compiled expression, or why it is none.
func (s *Subscription) Filter() (*filter.Filter, error) { return s.filter, s.err }

// compile makes the filter.
func (s *Subscription) compile() {
	if s.ExpressionType == "" {
		s.ExpressionType = filter.TypeTag
	}
	s.filter, s.err = filter.Compile(s.ExpressionType, s.Expression, filter.Options{})
}

// MarshalJSON writes it as tools read it, with tags and their codes.
func (s Subscription) MarshalJSON() ([]byte, error) {
	tags, codes := []string{}, []int32{}
	if s.filter != nil {
		tags, codes = append(tags, s.filter.Tags()...), append(codes, s.filter.TagCodes()...)
	}
	return json.Marshal(struct {
		ClassFilter bool     `json:"classFilterMode"`
		Codes       []int32  `json:"codeSet"`
		Type        string   `json:"expressionType"`
		Expression  string   `json:"subString"`
		Version     int64    `json:"subVersion"`
		Tags        []string `json:"tagsSet"`
		Topic       string   `json:"topic"`
	}{s.ClassFilter, codes, s.ExpressionType, s.Expression, int64(s.Version), tags, s.Topic})
}

// ParseHeartbeat decodes the body of a heartbeat as the clients of all languages send it.
func ParseHeartbeat(body []byte) (*Heartbeat, error) {
	var h Heartbeat
	if err := remoting.UnmarshalBody(body, &h); err != nil {
		return nil, fmt.Errorf("heartbeat: %w", err)
	}
	for i := range h.Consumers {
		for j := range h.Consumers[i].Subscriptions {
			h.Consumers[i].Subscriptions[j].compile()
		}
	}
	return &h, nil
}

// ConsumeType is how a group gets its messages.
type ConsumeType int

// The types, in the order of their ordinals.
const (
	Actively ConsumeType = iota
	Passively
	Pop
)

var consumeTypes = []string{"CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"}

// MessageModel is whether the members of a group share messages.
type MessageModel int

// The models, in the order of their ordinals.
const (
	Broadcasting MessageModel = iota
	Clustering
	LiteSelective
)

var messageModels = []string{"BROADCASTING", "CLUSTERING", "LITE_SELECTIVE"}

// FromWhere is where a group without an offset begins.
type FromWhere int

var fromWheres = []string{
	"CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", "CONSUME_FROM_MIN_OFFSET", "CONSUME_FROM_MAX_OFFSET",
	"CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP",
}

func unmarshalEnum[E ~int](e *E, b []byte, names []string) error {
	n, err := remoting.UnmarshalEnum(b, names)
	*e = E(n)
	return err
}

func name[E ~int](e E, names []string) string {
	if int(e) < 0 || int(e) >= len(names) {
		return fmt.Sprint(int(e))
	}
	return names[e]
}

// UnmarshalJSON reads a name or an ordinal.
func (c *ConsumeType) UnmarshalJSON(b []byte) error { return unmarshalEnum(c, b, consumeTypes) }

// UnmarshalJSON reads a name or an ordinal.
func (m *MessageModel) UnmarshalJSON(b []byte) error { return unmarshalEnum(m, b, messageModels) }

// UnmarshalJSON reads a name or an ordinal.
func (f *FromWhere) UnmarshalJSON(b []byte) error { return unmarshalEnum(f, b, fromWheres) }

func (c ConsumeType) String() string  { return name(c, consumeTypes) }
func (m MessageModel) String() string { return name(m, messageModels) }
func (f FromWhere) String() string    { return name(f, fromWheres) }

// MarshalText writes the name.
func (c ConsumeType) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// MarshalText writes the name.
func (m MessageModel) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// MarshalText writes the name.
func (f FromWhere) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
