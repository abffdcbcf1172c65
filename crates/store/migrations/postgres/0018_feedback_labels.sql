-- What a rating is labelled with: `key=value`.
CREATE TABLE feedback_labels (
    feedback TEXT NOT NULL,
    label    TEXT NOT NULL,
    PRIMARY KEY (feedback, label)
);
CREATE INDEX feedback_labelled ON feedback_labels (label, feedback);
CREATE INDEX feedback_of_task ON feedback (task);
