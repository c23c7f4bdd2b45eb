// Package property maps the fields of an options struct to the properties of RocketMQ's broker.conf: a field's tag prop names its property,
// "live" behind the name says that a running program can take a new value over, "own" that RocketMQ does not know it, and "-" that the field is no
// property.
//
// Fields are booleans, whole numbers, strings (and types of these), lists of strings (comma in the text), and durations (whole milliseconds in
// the text).
package property

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Separator stands between the parts of a property that is a list.
const Separator = ","

// Field is a field that mirrors a property.
type Field struct {
	Name  string
	Index int  // of the field
	Live  bool // a running program can take a new value over
	Own   bool // an addition, unknown to RocketMQ
}

// Fields lists the properties of a struct type, in the order of the fields.
func Fields[T any]() (list []Field) {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		words := strings.Split(t.Field(i).Tag.Get("prop"), ",")
		if words[0] == "-" || words[0] == "" {
			continue
		}
		list = append(list, Field{Name: words[0], Index: i, Live: slices.Contains(words, "live"), Own: slices.Contains(words, "own")})
	}
	return list
}

var durationType = reflect.TypeFor[time.Duration]()

// Text returns the property's value in the struct that o points to, as a properties file has it.
func (p *Field) Text(o any) string {
	switch v := reflect.ValueOf(o).Elem().Field(p.Index); {
	case v.Type() == durationType:
		return strconv.FormatInt(time.Duration(v.Int()).Milliseconds(), 10)
	case v.Kind() == reflect.Slice:
		return strings.Join(v.Interface().([]string), Separator)
	default:
		return fmt.Sprint(v.Interface())
	}
}

// Set gives the property in the struct that o points to the value that a properties file has. Numbers are what Java's parseInt takes, and truth
// is true or false in any case; blanks around are dropped. The error names the property, the value and what was wanted.
func (p *Field) Set(o any, text string) error {
	text = strings.TrimSpace(text)
	v := reflect.ValueOf(o).Elem().Field(p.Index)
	switch v.Kind() {
	case reflect.Bool:
		yes := strings.EqualFold(text, "true")
		if !yes && !strings.EqualFold(text, "false") {
			return fmt.Errorf("%s is %q, want true or false", p.Name, text)
		}
		v.SetBool(yes)
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("%s is %q, want a whole number", p.Name, text)
		}
		if v.Type() == durationType {
			if n < 0 || n > math.MaxInt32 {
				return fmt.Errorf("%s is %d, want whole milliseconds from 1 to %d", p.Name, n, math.MaxInt32)
			}
			n *= int64(time.Millisecond)
		}
		v.SetInt(n)
	case reflect.Slice:
		var parts []string
		if text != "" {
			parts = strings.Split(text, Separator)
		}
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		v.Set(reflect.ValueOf(parts))
	case reflect.String:
		v.SetString(text)
	default:
		panic("property: " + p.Name + " has a kind that Set does not know")
	}
	return nil
}

// Copy gives the property in the struct that dst points to the value that it has in the one that src points to, of the same type.
func (p *Field) Copy(dst, src any) {
	reflect.ValueOf(dst).Elem().Field(p.Index).Set(reflect.ValueOf(src).Elem().Field(p.Index))
}

// Nearest returns the property of list with the name that takes the fewest edits to become name, if that is at most a third of it; "" otherwise.
func Nearest(list []Field, name string) (nearest string) {
	fewest := len(name)/3 + 1
	for i := range list {
		if n := editDistance(strings.ToLower(name), strings.ToLower(list[i].Name)); n < fewest {
			fewest, nearest = n, list[i].Name
		}
	}
	return nearest
}

// editDistance counts the bytes to insert, remove or replace to make b out of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
