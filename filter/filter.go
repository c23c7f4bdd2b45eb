package filter

import (
	"fmt"
	"math"

	"github.com/alecthomas/participle/v2/lexer"

	"github.com/tandemq/tandemmq/message"
)

// Types of expressions, as clients name them.
const (
	TypeTag   = "TAG"
	TypeSQL92 = "SQL92"
)

// Limits of an expression. RocketMQ has none: what is nested too deep ends its parser with a stack overflow.
const (
	MaxLength = 64 << 10 // bytes
	MaxDepth  = 250      // parentheses, NOT and signs within one another
)

var tooDeep = fmt.Sprintf("nested deeper than %d", MaxDepth)

// Options are the choices where following RocketMQ to the letter is not what most want. The zero value is the default.
type Options struct {
	// ExactTags has MatchRecord compare the tag itself. RocketMQ's broker compares hashes alone and leaves tags that collide to
	// the client.
	ExactTags bool
	// IgnoreRest accepts an SQL92 text whose beginning is an expression, and ignores the rest, as RocketMQ does: it takes
	// a LIKE 'x' for a, and a = 1 + 1 for a = 1.
	IgnoreRest bool
}

// Filter is a compiled subscription. It never changes: any number of goroutines may use it.
type Filter struct {
	tags  *tagSet  // nil: not by tag, or all of them
	sql   *program // nil: not by expression
	exact bool
}

// Compile compiles an expression of the given type; an empty type is TypeTag. Errors are ErrType and *SyntaxError.
//
// Source: FilterAPI.build and SqlFilter.compile, 5.5.0.
func Compile(expressionType, expression string, o Options) (*Filter, error) {
	if len(expression) > MaxLength {
		at := lexer.Position{Line: 1, Column: 1}
		return nil, problem(at, "%d bytes long; %d are possible", len(expression), MaxLength)
	}
	f := &Filter{exact: o.ExactTags}
	var err error
	switch expressionType {
	case "", TypeTag:
		f.tags, err = parseTags(expression)
	case TypeSQL92:
		f.sql, err = compileSQL(expression, o.IgnoreRest)
	default:
		err = fmt.Errorf("%w: %q", ErrType, expressionType)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// MatchUnit tells from a consume queue unit's tags code whether its record may match: false is final. SQL92 says nothing here. A
// code that is the address of an extension unit matches: RocketMQ takes the code for unknown then.
//
// Source: ExpressionMessageFilter.isMatchedByConsumeQueue, 5.5.0.
func (f *Filter) MatchUnit(tagsCode int64) bool {
	return f.tags == nil || isExtAddress(tagsCode) || f.tags.hasCode(int32(tagsCode))
}

// isExtAddress tells whether a tags code is an address in the queue's extension files: it lies below all hashes.
//
// Source: ConsumeQueueExt.isExtAddr, 5.5.0.
func isExtAddress(tagsCode int64) bool { return tagsCode < math.MinInt32 }

// MatchRecord tells from a record's property string (message.Record.Properties) whether it matches. Where MatchUnit would say no, its
// answer has no meaning. An expression that fails on the record (a value that should be a number and is not) or that has no
// answer (NULL) does not match. It allocates nothing, but for numbers too large for a double.
//
// Source: ExpressionMessageFilter.isMatchedByCommitLog, 5.5.0.
func (f *Filter) MatchRecord(properties []byte) bool {
	switch {
	case f.sql != nil:
		return f.sql.run(properties) == True
	case f.tags != nil && f.exact:
		tag, _ := message.FindProperty(properties, message.PropertyTags)
		return f.tags.has(tag)
	}
	return true
}

// Outcome is what an expression says of a record.
type Outcome uint8

// Only True is a match.
const (
	False Outcome = iota
	True
	Unknown // the answer is NULL
	Failed  // a value that should be a number and is not, or a truth value compared with a string
)

// String returns the name in lower case.
func (o Outcome) String() string {
	return [...]string{"false", "true", "unknown", "failed"}[min(o, Failed)]
}

// Evaluate is MatchRecord in more words: it tells why a record does not match an SQL92 expression.
func (f *Filter) Evaluate(properties []byte) Outcome {
	if f.sql != nil {
		return f.sql.run(properties)
	}
	return outcome(f.MatchRecord(properties))
}

// MatchesAll tells whether every message matches: a subscription to *.
func (f *Filter) MatchesAll() bool { return f.tags == nil && f.sql == nil }

// Tags are the tags of a subscription by tag, sorted, each once; nil for others and for *.
func (f *Filter) Tags() []string {
	if f.tags == nil {
		return nil
	}
	return append([]string{}, f.tags.tags...)
}

// TagCodes are the hashes of Tags, sorted, each once. They are computed here and never taken from clients: some send others.
func (f *Filter) TagCodes() []int32 {
	if f.tags == nil {
		return nil
	}
	return append([]int32{}, f.tags.codes...)
}

func compileSQL(text string, ignoreRest bool) (*program, error) {
	list := tokenize(text)
	if err := checkDepth(list); err != nil {
		return nil, err
	}
	expr, next, err := parse(list)
	if err != nil {
		return nil, err
	}
	if rest := list[next]; !rest.EOF() && (rest.Type == typeInvalid || !ignoreRest && !isComment(list, next)) {
		return nil, unexpected(list, next)
	}
	return compile(expr)
}
