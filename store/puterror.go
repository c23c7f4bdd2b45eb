package store

import (
	"errors"
	"fmt"

	"github.com/tandemq/tandemmq/commitlog"
	"github.com/tandemq/tandemmq/message"
)

// illegal returns the error of a message that breaks a rule.
func illegal(format string, args ...any) error {
	return &PutError{PutMessageIllegal, fmt.Errorf(format, args...)}
}

// limitError returns the error of a message that passes a limit of the record's format or of the options: one status for one
// cause, whichever queues it goes to (W47).
func limitError(err error) error {
	if errors.Is(err, message.ErrPropertiesLength) {
		return &PutError{PutPropertiesSizeExceeded, err}
	}
	return &PutError{PutMessageIllegal, err}
}

// reasonOf returns the reason of a refusal, without its status.
func reasonOf(err error) error {
	var put *PutError
	if errors.As(err, &put) {
		return put.Err
	}
	return err
}

// logError gives an error of a reservation its status. Nothing was stored.
func logError(err error) error {
	var put *PutError
	if errors.As(err, &put) {
		return put
	}
	status := PutUnknownError
	switch {
	case errors.Is(err, commitlog.ErrFailed), errors.Is(err, commitlog.ErrClosed): // first: a failure may wrap any other
		status = PutServiceNotAvailable
	case errors.Is(err, commitlog.ErrSize):
		status = PutMessageIllegal
	case errors.Is(err, commitlog.ErrAllocate):
		status = PutCreateMappedFileFailed
	case errors.Is(err, commitlog.ErrBusy):
		status = PutOSPageCacheBusy
	}
	return &PutError{status, err}
}

// refuse returns the result of a put that stored nothing.
func refuse(err error) (PutResult, error) {
	r := PutResult{Status: PutStatusOf(err)}
	switch {
	case r.Status == PutPropertiesSizeExceeded:
		r.Append.Status = AppendPropertiesSizeExceeded
	case errors.Is(err, message.ErrBodyLength), errors.Is(err, message.ErrRecordLength), errors.Is(err, errRecordSize), errors.Is(err, commitlog.ErrSize):
		r.Append.Status = AppendMessageSizeExceeded
	}
	return r, err
}
