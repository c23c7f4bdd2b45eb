package filter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/message"
)

func compiled(t testing.TB, expression string) *Filter {
	t.Helper()
	f, err := Compile(TypeSQL92, expression, Options{})
	require.NoError(t, err)
	return f
}

func TestTypes(t *testing.T) {
	f, err := Compile("", "A", Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"A"}, f.Tags())
	require.False(t, f.MatchesAll())
	_, err = Compile("CLASS", "A", Options{})
	require.ErrorIs(t, err, ErrType)
	for _, all := range []string{"", "*"} {
		f, err = Compile(TypeTag, all, Options{ExactTags: true})
		require.NoError(t, err)
		require.True(t, f.MatchesAll())
		require.True(t, f.MatchUnit(7))
		require.True(t, f.MatchRecord(nil))
		require.Nil(t, f.Tags())
		require.Nil(t, f.TagCodes())
	}
	f = compiled(t, "a = 1")
	require.False(t, f.MatchesAll())
	require.True(t, f.MatchUnit(0), "units know no properties")
	require.Nil(t, f.Tags())
}

// Negative codes are hashes like others; below 32 bits they are addresses of extension units.
func TestFRI06NegativeTagCodes(t *testing.T) {
	f, err := Compile(TypeTag, "refund || polygenelubricants", Options{})
	require.NoError(t, err)
	require.Equal(t, []int32{-2147483648, -934813832}, f.TagCodes())
	for code, want := range map[int64]bool{-934813832: true, -2147483648: true, 934813832: false, 0: false, -2147483649: true, -1 << 63: true} {
		require.Equal(t, want, f.MatchUnit(code), "%d", code)
	}
}

func TestExactTags(t *testing.T) {
	hashed, err := Compile(TypeTag, "AaAa || 中文", Options{})
	require.NoError(t, err)
	exact, err := Compile(TypeTag, "AaAa || 中文", Options{ExactTags: true})
	require.NoError(t, err)
	for tag, want := range map[string]bool{"AaAa": true, "中文": true, "BBBB": false} {
		p := properties(map[string]string{"KEYS": "AaAa", message.PropertyTags: tag})
		require.True(t, hashed.MatchUnit(message.TagsHash([]byte(tag))), "%q", tag)
		require.True(t, exact.MatchUnit(message.TagsHash([]byte(tag))), "%q", tag)
		require.True(t, hashed.MatchRecord(p))
		require.Equal(t, want, exact.MatchRecord(p), "%q", tag)
	}
	require.False(t, exact.MatchRecord(nil))
	require.Equal(t, False, exact.Evaluate(nil))
	require.Equal(t, True, hashed.Evaluate(nil))
}

// Properties are found as message.FindProperty finds them, by name within the record's bytes, in and beyond the slots.
func TestPropertiesAsStored(t *testing.T) {
	for _, names := range []int{1, slots + 1} {
		expression := "b = 'x'"
		for i := 1; i < names; i++ {
			expression = fmt.Sprintf("z%d IS NULL AND %s", i, expression)
		}
		f := compiled(t, expression)
		for properties, want := range map[string]bool{
			"b\x01x":                        true,
			"b\x01x\x02":                    true,
			"a\x01b\x02b\x01x\x02c\x01\x02": true,
			"b\x01y\x02b\x01x":              true, // the last one counts
			"b\x01x\x02b\x01y":              false,
			"b\x01x\x02b\x01\x02":           true, // an empty one is none
			"ab\x01x":                       false,
			"b\x01x\x01y":                   false,
			"\x01x\x02b":                    false,
			"":                              false,
		} {
			require.Equal(t, want, f.MatchRecord([]byte(properties)), "%d names, %q", names, properties)
		}
	}
}

func TestErrorsTellPlaceAndWant(t *testing.T) {
	for _, tt := range []struct {
		expression   string
		line, column int
		found, want  string // part of the text
	}{
		{"", 1, 1, "end of the expression", "a property name"},
		{"a >", 1, 4, "end of the expression", "a property name"},
		{"a\n  == 1", 2, 4, `"="`, "a property name"},
		{"中 = 1", 1, 1, `character "中"`, "a property name"},
		{"a = '中' # 1", 1, 9, `character "#"`, "or the end"},
		{"a LIKE 'x'", 1, 3, `"LIKE"`, "[NOT] CONTAINS"},
		{"a NOT LIKE 'x'", 1, 7, `"LIKE"`, "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH"},
		{"a = NOT AND", 1, 9, `"AND"`, "a property name"},
		{"a IS 1", 1, 6, `"1"`, "NULL or NOT NULL"},
		{"a IS NOT 1", 1, 10, `"1"`, "NULL"},
		{"a IN 'x'", 1, 6, `"'x'"`, `"("`},
		{"a IN ()", 1, 7, `")"`, "a string in single quotes"},
		{"a IN ('x' 'y')", 1, 11, `"'y'"`, `"," or ")"`},
		{"a IN ('x',1)", 1, 11, `"1"`, "a string in single quotes"},
		{"a CONTAINS b", 1, 12, `"b"`, "a string in single quotes"},
		{"a BETWEEN 1 OR 2", 1, 13, `"OR"`, "AND and the upper bound"},
		{"a BETWEEN (b) x", 1, 15, `"x"`, "AND and the upper bound"},
		{"a BETWEEN 1 AND 2 3", 1, 19, `"3"`, "or the end"},
		{"a BETWEEN (b = c AND d) x", 1, 25, `"x"`, "AND and the upper bound"},
		{"(a = 1", 1, 7, "end of the expression", `or ")"`},
		{"(a IN ('x') b", 1, 13, `"b"`, `or ")"`},
		{"a = " + strings.Repeat("'", 3), 1, 5, "", "a string begins here"},
		{"a = 1 b = 2", 1, 7, `"b"`, "or the end"},
		{"a = 9223372036854775808", 1, 5, "", "a whole number of 64 bits"},
		{"a = 0.0", 1, 5, "", "4.9E-324"},
		{"a = 1e309", 1, 5, "", "1.7976931348623157E308"},
		{"a > 'x'", 1, 3, "", "numbers and properties"},
		{"NOT a > 1", 1, 7, "", "conditions have no order"},
		{"a = NULL", 1, 3, "", "IS NULL"},
		{"TRUE <> 1", 1, 6, "", "TRUE or FALSE on both sides"},
		{"1 IN ('x')", 1, 3, "", "a property in front of IN"},
		{"a BETWEEN 3 AND 1", 1, 3, "", "a lower bound"},
		{"a = 1 AND 'x'", 1, 11, "", "a condition"},
		{"7", 1, 1, "", "a condition"},
	} {
		_, err := Compile(TypeSQL92, tt.expression, Options{})
		var se *SyntaxError
		require.ErrorAs(t, err, &se, "%q", tt.expression)
		require.ErrorIs(t, err, ErrSyntax)
		require.NotErrorIs(t, err, ErrType)
		require.Equal(t, [2]int{tt.line, tt.column}, [2]int{se.Line, se.Column}, "%q: %v", tt.expression, err)
		require.Contains(t, se.Error(), tt.want, "%q", tt.expression)
		if tt.found != "" {
			require.Equal(t, tt.found, se.Found, "%q", tt.expression)
		}
	}
	_, err := Compile(TypeSQL92, "x = 'é' AND", Options{})
	require.EqualError(t, err, "filter expression refused at line 1, column 12: unexpected end of the expression, expected "+wantOperand)
	_, err = Compile(TypeTag, "||", Options{})
	require.ErrorIs(t, err, ErrSyntax)
}

func TestIgnoreRest(t *testing.T) {
	p := properties(map[string]string{"a": "1"})
	for _, expression := range []string{"a = 1 + 1", "a = 1) AND b", "a = 1 'x' #"} {
		_, err := Compile(TypeSQL92, expression, Options{})
		require.ErrorIs(t, err, ErrSyntax, "%q", expression)
		f, err := Compile(TypeSQL92, expression, Options{IgnoreRest: true})
		require.NoError(t, err, "%q", expression)
		require.True(t, f.MatchRecord(p))
	}
	_, err := Compile(TypeSQL92, "a = 1 #", Options{IgnoreRest: true})
	require.ErrorIs(t, err, ErrSyntax)
	require.True(t, compiled(t, "a = 1 -- a comment without a line end").MatchRecord(p))
}

func TestLimits(t *testing.T) {
	wide := strings.Repeat("a = 'x' OR ", MaxLength/11-1) + "TRUE"
	require.True(t, compiled(t, wide).MatchRecord(nil))
	_, err := Compile(TypeSQL92, wide+strings.Repeat(" ", MaxLength), Options{})
	require.ErrorIs(t, err, ErrSyntax)
	_, err = Compile(TypeTag, strings.Repeat("t", MaxLength+1), Options{})
	require.ErrorIs(t, err, ErrSyntax)

	nested := func(n int, open, middle, closing string) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(closing, n)
	}
	for _, tt := range []struct{ open, middle, closing string }{
		{"(", "TRUE", ")"},
		{"NOT ", "FALSE", ""},
		{"- ", "1 = 1", ""},
		{"NOT(", "FALSE", ")"},
		{"(FALSE OR TRUE AND TRUE = NOT", "(TRUE)", ")"},
	} {
		levels := MaxDepth / (strings.Count(tt.open, "(") + strings.Count(tt.open, "NOT") + strings.Count(tt.open, "-"))
		_, err := Compile(TypeSQL92, nested(levels-1, tt.open, tt.middle, tt.closing), Options{})
		require.NoError(t, err, "%d of %q", levels, tt.open)
		for _, n := range []int{levels + 1, MaxLength / (len(tt.open) + len(tt.closing)) / 2} {
			_, err = Compile(TypeSQL92, nested(n, tt.open, tt.middle, tt.closing), Options{})
			var se *SyntaxError
			require.ErrorAs(t, err, &se, "%d of %q", n, tt.open)
			require.Equal(t, tooDeep, se.Problem)
			require.Positive(t, se.Column)
		}
	}
	_, err = Compile(TypeSQL92, nested(10_000, "(", "TRUE", ")"), Options{})
	require.EqualError(t, err, "filter expression refused at line 1, column 251: nested deeper than 250")
	// Side by side is not within one another.
	compiled(t, strings.TrimSuffix(strings.Repeat("(NOT (- 1 = 1)) OR ", MaxDepth*2), " OR "))
	for _, chain := range []string{" = a", " IS NULL", " CONTAINS 'x'", " <> 'x'"} {
		compiled(t, "a"+strings.Repeat(chain, MaxDepth))
		_, err = Compile(TypeSQL92, "a"+strings.Repeat(chain, 4*MaxDepth+1), Options{})
		require.ErrorContains(t, err, tooDeep, "%q", chain)
	}
}

func TestEvaluationAllocatesNothing(t *testing.T) {
	p := properties(map[string]string{
		"TAGS": "TagA", "KEYS": "k1", "region": "eu-west", "amount": "120", "score": "4.75", "vip": "true",
		"long": "3000000000", "digits": "0.1234567890123456789012345678901234567890123456789",
	})
	for _, expression := range []string{
		"region = 'eu-west' AND amount > 100 AND score < 5.5",
		"TAGS IN ('a','b','TagA') AND KEYS CONTAINS 'k' AND NOT (vip = FALSE) AND amount BETWEEN 1 AND 120",
		"digits < 0.13 AND long > 2999999999 AND amount <= score IS NOT NULL",
		"amount = 7 OR region > 1 OR TRUE",
	} {
		f := compiled(t, expression)
		require.Zero(t, testing.AllocsPerRun(100, func() { f.MatchRecord(p) }), "%q", expression)
	}
	tags, err := Compile(TypeTag, "a||b||TagA", Options{ExactTags: true})
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() { tags.MatchUnit(2598919); tags.MatchRecord(p) }))
}

func TestOutcomeNames(t *testing.T) {
	require.Equal(t, "true false unknown failed", fmt.Sprint(True, False, Unknown, Failed))
}
