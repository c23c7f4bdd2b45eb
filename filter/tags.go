package filter

import (
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"

	"github.com/tandemq/tandemmq/message"
)

// subscribeAll is the expression for all tags.
const subscribeAll = "*"

// tagSet is a list of tags.
type tagSet struct {
	tags  []string // sorted
	codes []int32  // sorted
}

// parseTags reads tags with || between them; nil stands for all. Blanks around a tag do not count, nor do empty ones: a list of
// blanks is a list of no tag, which matches nothing.
//
// Source: FilterAPI.buildSubscriptionData, 5.5.0.
func parseTags(expression string) (*tagSet, error) {
	if expression == "" || expression == subscribeAll {
		return nil, nil
	}
	if strings.ReplaceAll(expression, "||", "") == "" {
		return nil, problem(lexer.Position{Line: 1, Column: 1}, "expected a tag in front of, between or behind the ||")
	}
	s := &tagSet{}
	for tag := range strings.SplitSeq(expression, "||") {
		tag = strings.TrimFunc(tag, func(r rune) bool { return r <= ' ' })
		if tag == "" {
			continue
		}
		s.tags = append(s.tags, tag)
		s.codes = append(s.codes, message.HashUTF16(0, []byte(tag)))
	}
	slices.Sort(s.tags)
	slices.Sort(s.codes)
	s.tags, s.codes = slices.Compact(s.tags), slices.Compact(s.codes)
	return s, nil
}

func (s *tagSet) hasCode(code int32) bool {
	_, ok := slices.BinarySearch(s.codes, code)
	return ok
}

func (s *tagSet) has(tag []byte) bool {
	for _, t := range s.tags {
		if t == string(tag) {
			return true
		}
	}
	return false
}
