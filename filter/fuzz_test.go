package filter

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

// Whatever the expression and the record: it is compiled, or refused at a place within it; MatchRecord and Evaluate agree; what is
// accepted by default means the same with IgnoreRest; and NOT in front of it turns true and false round and leaves the rest.
func FuzzSQL(f *testing.F) {
	for _, g := range readJavaTable(f).Groups {
		for i, c := range g.Cases {
			f.Add(c.Expression, properties(g.Sets[i%len(g.Sets)]))
		}
	}
	f.Add(strings.Repeat("(", 10_000), []byte("a\x01\xff\x02"))
	f.Add(strings.Repeat("NOT ", 10_000), []byte("\x02\x01\x02"))
	f.Fuzz(func(t *testing.T, expression string, record []byte) {
		filter, err := Compile(TypeSQL92, expression, Options{})
		loose, looseErr := Compile(TypeSQL92, expression, Options{IgnoreRest: true})
		for _, err := range []error{err, looseErr} {
			if err == nil {
				continue
			}
			var se *SyntaxError
			require.ErrorAs(t, err, &se)
			require.LessOrEqual(t, se.Offset, len(expression))
			require.Positive(t, se.Line)
			require.Positive(t, se.Column)
			require.NotEmpty(t, se.Problem+se.Want)
		}
		if looseErr == nil {
			got := loose.Evaluate(record)
			require.Equal(t, got == True, loose.MatchRecord(record))
			require.LessOrEqual(t, got, Failed)
		}
		if err != nil {
			return
		}
		require.NoError(t, looseErr)
		got := filter.Evaluate(record)
		require.Equal(t, loose.Evaluate(record), got)
		not, err := Compile(TypeSQL92, "NOT (\n"+expression+"\n)", Options{})
		if err != nil { // too long or too deep now, or its end was a comment that is one no more
			return
		}
		require.Equal(t, got.not(), not.Evaluate(record))
	})
}

// Every tag of a list is found by its code, and by itself.
func FuzzTags(f *testing.F) {
	for _, c := range readJavaTable(f).Tags {
		f.Add(c.Expression, []byte("TAGS\x01A\x02"))
	}
	f.Fuzz(func(t *testing.T, expression string, record []byte) {
		filter, err := Compile(TypeTag, expression, Options{ExactTags: true})
		if err != nil {
			require.ErrorIs(t, err, ErrSyntax)
			return
		}
		filter.MatchRecord(record)
		for _, tag := range filter.Tags() {
			require.True(t, filter.MatchUnit(message.TagsHash([]byte(tag))))
			require.True(t, filter.tags.has([]byte(tag)))
		}
	})
}

// The short ways to read a number give what the long ones give, and what is read is what strconv reads where it knows the form.
func FuzzNumbers(f *testing.F) {
	for _, g := range readJavaTable(f).Groups {
		for _, set := range g.Sets {
			f.Add([]byte(set["a"]))
		}
	}
	f.Add([]byte("-.000000000000001"))
	f.Add([]byte("999999999999999."))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, ok := parseLong(text)
		want, err := strconv.ParseInt(string(text), 10, 64)
		if err == nil {
			require.True(t, ok, "%q", text)
			require.Equal(t, want, n, "%q", text)
		} else if ok {
			require.NotEqual(t, len(text), len([]rune(string(text))), "only other scripts: %q", text)
		}
		short, isShort := parseShort(text)
		d, ok := parseDouble(text)
		if isShort {
			require.True(t, ok)
			want, err := strconv.ParseFloat(string(text), 64)
			require.NoError(t, err)
			require.Equal(t, math.Float64bits(want), math.Float64bits(short), "%q", text)
			require.Equal(t, math.Float64bits(want), math.Float64bits(d), "%q", text)
		}
	})
}
