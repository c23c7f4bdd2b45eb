package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/tandemq/tandemmq/message"
)

// messageInfo is a message as commands show it. Names are those of a dump's lines. Text that is no UTF-8 has U+FFFD for each wrong byte.
type messageInfo struct {
	QueueOffset int64  `json:"queueOffset"`
	PhyOffset   int64  `json:"commitLogOffset"`
	Size        int32  `json:"size"`
	TagsCode    *int64 `json:"tagsCode,omitempty"` // of the unit
	Fault       string `json:"fault,omitempty"`    // why there is no message; nothing follows then
	Note        string `json:"note,omitempty"`     // what is odd about it

	Topic             string     `json:"topic,omitempty"` // of the record, as all that follows
	QueueID           int32      `json:"queueId"`
	RecordQueueOffset int64      `json:"recordQueueOffset"`
	MsgID             string     `json:"msgId,omitempty"`
	UniqKey           string     `json:"uniqKey,omitempty"`
	Keys              string     `json:"keys,omitempty"`
	Tags              string     `json:"tags,omitempty"`
	StoreTimestamp    int64      `json:"storeTimestamp"`
	StoreTime         string     `json:"storeTime,omitempty"`
	BornTimestamp     int64      `json:"bornTimestamp"`
	BornHost          string     `json:"bornHost,omitempty"`
	StoreHost         string     `json:"storeHost,omitempty"`
	SysFlag           int32      `json:"sysFlag"`
	Flags             []string   `json:"flags,omitempty"`
	Flag              int32      `json:"flag"`
	ReconsumeTimes    int32      `json:"reconsumeTimes"`
	BodyLen           int        `json:"bodyLen"`
	Properties        []property `json:"properties,omitempty"`
	Body              []byte     `json:"body,omitempty"` // in base64, as it is stored
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// MarshalJSON leaves out what nobody knows of a message that is not there.
func (m *messageInfo) MarshalJSON() ([]byte, error) {
	if m.Fault == "" {
		type plain messageInfo
		return json.Marshal((*plain)(m))
	}
	f := struct {
		QueueOffset *int64 `json:"queueOffset,omitempty"`
		PhyOffset   int64  `json:"commitLogOffset"`
		Size        int32  `json:"size,omitempty"`
		TagsCode    *int64 `json:"tagsCode,omitempty"`
		Fault       string `json:"fault"`
	}{nil, m.PhyOffset, m.Size, m.TagsCode, m.Fault}
	if m.QueueOffset >= 0 {
		f.QueueOffset = &m.QueueOffset
	}
	return json.Marshal(f)
}

// faultText says that there is no message, and why.
func (m *messageInfo) faultText() string {
	if m.QueueOffset < 0 {
		return fmt.Sprintf("physical offset %d has no message: %s", m.PhyOffset, m.Fault)
	}
	return fmt.Sprintf("offset %d has no message: %s", m.QueueOffset, m.Fault)
}

// fill takes over what the record says; body asks for its body and properties too.
func (m *messageInfo) fill(r *message.Record, body bool) {
	text := func(name string) string {
		v, _ := r.Property(name)
		return strings.ToValidUTF8(string(v), "\uFFFD")
	}
	m.PhyOffset, m.Size = r.PhyOffset, r.TotalSize
	m.Topic, m.QueueID, m.RecordQueueOffset = strings.ToValidUTF8(string(r.Topic), "\uFFFD"), r.QueueID, r.QueueOffset
	m.MsgID = message.OffsetMsgID(r.StoreHost, r.PhyOffset)
	m.UniqKey, m.Keys, m.Tags = text(message.PropertyUniqKey), text(message.PropertyKeys), text(message.PropertyTags)
	m.StoreTimestamp, m.StoreTime, m.BornTimestamp = r.StoreTimestampMs, message.TimeText(r.StoreTimestampMs), r.BornTimestampMs
	m.BornHost, m.StoreHost = message.DecodeHost(r.BornHost).AddrString(), message.DecodeHost(r.StoreHost).String()
	m.SysFlag, m.Flags, m.Flag, m.ReconsumeTimes, m.BodyLen = r.SysFlag, message.FlagNames(r.SysFlag), r.Flag, r.ReconsumeTimes, len(r.Body)
	if body {
		m.Body = append([]byte{}, r.Body...)
		m.Properties = propertiesOf(r)
	}
}

func propertiesOf(r *message.Record) []property {
	list := []property{}
	for name, value := range r.PropertiesSeq() {
		list = append(list, property{strings.ToValidUTF8(string(name), "\uFFFD"), strings.ToValidUTF8(string(value), "\uFFFD")})
	}
	return list
}

// printMessages prints a line a message, with its properties and body below it when they were asked for.
func printMessages(w io.Writer, list []*messageInfo, body bool) error {
	if body {
		for _, m := range list {
			printMessage(w, m)
		}
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "OFFSET\tPHYSICAL\tSIZE\tSTORED\tTOPIC\tQUEUE\tTAGS\tKEYS\tUNIQ_KEY\tFLAGS")
	for _, m := range list {
		if m.Fault != "" {
			continue // told below: they would make the columns wide
		}
		fmt.Fprintf(tw, "%d\t%d\t%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", m.QueueOffset, m.PhyOffset, m.Size, m.StoreTime, readable(m.Topic), m.QueueID,
			orDash(m.Tags), orDash(m.Keys), orDash(m.UniqKey), strings.Join(m.Flags, " "))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, m := range list {
		switch {
		case m.Fault != "":
			fmt.Fprintln(w, m.faultText())
		case m.Note != "":
			fmt.Fprintf(w, "offset %d: %s\n", m.QueueOffset, m.Note)
		}
	}
	return nil
}

func printMessage(w io.Writer, m *messageInfo) {
	if m.Fault != "" {
		fmt.Fprintln(w, m.faultText())
		return
	}
	fmt.Fprintf(w, "offset %d, %s\n", m.QueueOffset, m.MsgID)
	rows := [][2]string{
		{"record", fmt.Sprintf("%d bytes at physical offset %d", m.Size, m.PhyOffset)},
		{"queue", fmt.Sprintf("%s/%d offset %d", readable(m.Topic), m.QueueID, m.RecordQueueOffset)},
		{"stored", m.StoreTime + " by " + m.StoreHost},
		{"born", message.TimeText(m.BornTimestamp) + " at " + m.BornHost},
		{"sysFlag", fmt.Sprintf("0x%03x %s", uint32(m.SysFlag), strings.Join(m.Flags, " "))},
		{"delivered again", fmt.Sprintf("%d times", m.ReconsumeTimes)},
	}
	for _, p := range m.Properties {
		rows = append(rows, [2]string{"property", readable(p.Name) + " = " + readable(p.Value)})
	}
	if m.Note != "" {
		rows = append(rows, [2]string{"note", m.Note})
	}
	table(w, append(rows, [2]string{"body", bodyText(m.Body)})...)
}

// bodyText is a body for people: its text, or its first bytes in hexadecimal digits.
func bodyText(b []byte) string {
	const most = 1024
	cut := ""
	if len(b) > most {
		cut = fmt.Sprintf(" ... (%s in all; --json has it whole)", byteSize(int64(len(b))))
	}
	short := b[:min(len(b), most)]
	for n := 0; n < utf8.UTFMax && cut != "" && !utf8.Valid(short) && len(short) > 0; n++ {
		short = short[:len(short)-1] // the cut may go through a character
	}
	switch {
	case len(b) == 0:
		return "empty"
	case utf8.Valid(short):
		return readable(string(short)) + cut
	}
	return fmt.Sprintf("0x%x%s", b[:min(len(b), most/8)], cut)
}

// readable writes text without what moves a terminal's cursor.
func readable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return readable(s)
}
