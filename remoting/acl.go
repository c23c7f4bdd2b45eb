package remoting

import (
	"crypto/hmac"
	"crypto/sha1" // the protocol's choice
	"encoding/base64"
	"slices"
	"strings"
)

// The header fields of a signed request.
//
// Source: SessionCredentials, 5.5.0.
const (
	FieldAccessKey     = "AccessKey"
	FieldSignature     = "Signature"
	FieldSecurityToken = "SecurityToken"
)

// uniqueKeyQuery is a field that clients up to V4_9_3 set after they have signed.
const uniqueKeyQuery = "_UNIQUE_KEY_QUERY"

// Credentials sign requests.
type Credentials struct {
	AccessKey, SecretKey string
	SecurityToken        string // empty: none
}

// Sign adds access key, token and signature to a request. It must be called last, as any change of fields or body makes the signature wrong.
//
// The signature is the Base64 text of HMAC-SHA1, with the secret key, over the values of all header fields but Signature, in the order of
// their keys, and then the body.
//
// Source: AclClientRPCHook, AclUtils.combineRequestContent and AclSigner, 5.5.0.
func (c Credentials) Sign(req *Command) {
	req.Ext.Delete(FieldSignature)
	req.Ext.Set(FieldAccessKey, c.AccessKey)
	if c.SecurityToken != "" {
		req.Ext.Set(FieldSecurityToken, c.SecurityToken)
	}
	req.Ext.Set(FieldSignature, base64.StdEncoding.EncodeToString(signature(req, c.SecretKey, false)))
}

// VerifySignature reports whether the request was signed with the secret key. It takes as long for a wrong signature as for a right one.
func VerifySignature(req *Command, secretKey string) bool {
	given, err := base64.StdEncoding.DecodeString(req.Ext.Get(FieldSignature))
	if err != nil || len(given) == 0 {
		return false
	}
	return hmac.Equal(given, signature(req, secretKey, req.Version <= V4_9_3))
}

func signature(req *Command, secretKey string, old bool) []byte {
	fields := slices.Clone(req.Ext) // a request may be looked at by others meanwhile
	slices.SortStableFunc(fields, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	mac := hmac.New(sha1.New, []byte(secretKey))
	for _, f := range fields {
		if f.Key == FieldSignature || old && f.Key == uniqueKeyQuery {
			continue
		}
		mac.Write([]byte(f.Value))
	}
	mac.Write(req.Body)
	return mac.Sum(nil)
}
