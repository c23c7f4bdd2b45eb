package filter

import (
	"testing"

	"github.com/tandemq/tandemmq/message"
)

// benchProperties is what a producer of the Java client sends, and three properties of its own.
func benchProperties() (p []byte) {
	for _, pair := range [][2]string{
		{"KEYS", "order-10023"},
		{"UNIQ_KEY", "7F0000010A6C18B4AAC24B3B1F7D0000"},
		{"region", "eu-west"},
		{"WAIT", "true"},
		{"TAGS", "TagA"},
		{"amount", "120"},
		{"score", "4.75"},
		{"CLUSTER", "DefaultCluster"},
	} {
		p = message.AppendProperty(p, pair[0], pair[1])
	}
	return p
}

func BenchmarkMatchRecord(b *testing.B) {
	p := benchProperties()
	for name, expression := range map[string]string{
		"one":   "region = 'eu-west'",
		"three": "region = 'eu-west' AND amount > 100 AND score < 5.5",
		"in":    "TAGS IN ('TagX', 'TagY', 'TagA', 'TagZ') OR region STARTSWITH 'us'",
	} {
		f := compiled(b, expression)
		b.Run("expr="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !f.MatchRecord(p) {
					b.Fatal("no match")
				}
			}
		})
	}
}

func BenchmarkMatchUnit(b *testing.B) {
	f, err := Compile(TypeTag, "TagX || TagY || TagA || TagZ", Options{})
	if err != nil {
		b.Fatal(err)
	}
	code := message.TagsHash([]byte("TagA"))
	for b.Loop() {
		if !f.MatchUnit(code) {
			b.Fatal("no match")
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := Compile(TypeSQL92, "region = 'eu-west' AND amount > 100 AND score < 5.5", Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
