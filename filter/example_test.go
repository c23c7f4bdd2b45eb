package filter_test

import (
	"fmt"

	"github.com/tandemq/tandemmq/filter"
	"github.com/tandemq/tandemmq/message"
)

func ExampleCompile_tags() {
	f, err := filter.Compile(filter.TypeTag, "TagA || TagB", filter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Tags(), f.TagCodes())
	fmt.Println(f.MatchUnit(message.TagsHash([]byte("TagA"))), f.MatchUnit(message.TagsHash([]byte("TagC"))))
	// Output:
	// [TagA TagB] [2598919 2598920]
	// true false
}

func ExampleCompile_sql() {
	f, err := filter.Compile(filter.TypeSQL92, "region = 'eu' AND amount > 100", filter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var properties []byte
	properties = message.AppendProperty(properties, "region", "eu")
	fmt.Println(f.MatchRecord(properties), f.Evaluate(properties))
	properties = message.AppendProperty(properties, "amount", "120")
	fmt.Println(f.MatchRecord(properties), f.Evaluate(properties))
	_, err = filter.Compile(filter.TypeSQL92, "region LIKE 'eu%'", filter.Options{})
	fmt.Println(err)
	// Output:
	// false unknown
	// true true
	// filter expression refused at line 1, column 8: unexpected "LIKE", expected =, <>, <, <=, >, >=, [NOT] BETWEEN, [NOT] IN, [NOT] CONTAINS, [NOT] STARTSWITH, [NOT] ENDSWITH, IS [NOT] NULL, AND, OR or the end
}
