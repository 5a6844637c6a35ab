//! The API: kinds, annotation and label keys, conditions, reasons, validation and CRDs.
